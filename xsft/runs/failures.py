"""Find the cause in what a process printed, by the rules with `log` in xsft/runs/rules.toml. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from xsft.cluster.evidence import Diagnosis
from xsft.runs.cause_rule import Rule
from xsft.runs.causes import log_rules
from xsft.trainer.lines import plain_line
from xsft.trainer.log_end import PREFIX, LogEnd, log_end, records

MAX_LINE = 400
"""Maximum characters of a quoted line."""
MAX_REASON = 600
"""Maximum characters of a reason."""

NO_ROWS = "the data set has no rows"
"""The text of the rule `data-empty`."""

_INFORMATION = re.compile(r"I\d{4} |INFO:")
"""Begins a line of absl or logging that reports no trouble."""
_LINKS = re.compile(r"\s*For further information visit https://errors\.pydantic\.dev\S*|\s+")


class _Match(Struct, frozen=True, kw_only=True):
    rank: int
    """Position of the rule; a smaller one is likelier."""
    rule: Rule
    found: re.Match[str]

    @property
    def line(self) -> str:
        """The line in which the match begins, without its prefix."""
        printed = self.found.string
        begin = printed.rfind("\n", 0, self.found.start()) + 1
        return printed[begin:].partition("\n")[0]

    @property
    def text(self) -> str:
        words = {name: _LINKS.sub(" ", group or "").strip() for name, group in self.found.groupdict().items()}
        return self.rule.text.format_map(words) or PREFIX.sub("", self.line).strip()


def diagnose(lines: Sequence[str], *, rules: Sequence[Rule] | None = None) -> Diagnosis | None:
    """Return the cause that the end of the log shows; else the likeliest line before it, as `earlier`; else None.

    A process's own failure comes before the loss of another one, because a process that fails also loses its peers.
    Colours are ignored. `rules`: those to try; None: all.
    """
    rules = log_rules() if rules is None else rules
    printed = tuple(plain_line(line) for line in lines)
    shown = _likeliest(_matches_at_end(log_end(printed), printed, rules))
    if shown is not None:
        return _diagnosis(shown, lost_peer=shown.rule.echo)
    before = _likeliest(_matches_anywhere(printed, rules))
    return None if before is None else _diagnosis(before, earlier=True)


def reason(lines: Sequence[str]) -> str | None:
    """Return the cause that the end of the log shows, in one or two sentences."""
    shown = diagnose(lines)
    return None if shown is None or shown.earlier else shown.text


def signature(line: str) -> str:
    """Return the line without its prefix, numbers, addresses and quoted names: equal for the same failure of two
    attempts."""
    bare = PREFIX.sub("", line)
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", bare, flags=re.IGNORECASE).strip()[:160]


def _matches_at_end(end: LogEnd, printed: Sequence[str], rules: Sequence[Rule]) -> Iterator[_Match]:
    for text in end.exceptions:
        yield from _first_match(text, ("exception", "end"), end, rules)
    for text in end.lines:
        yield from _first_match(text, ("end", "final"), end, rules)
    for text in records(printed):
        yield from _first_match(text, ("final",), end, rules)


def _first_match(text: str, printed: Sequence[str], end: LogEnd, rules: Sequence[Rule]) -> Iterator[_Match]:
    """Yield the match of the first rule that fits: what it finds in the text is not another rule's."""
    for rank, rule in enumerate(rules):
        if rule.printed not in printed or not re.search(rule.frames or "", end.frames):
            continue
        match = re.search(rule.log, text)
        if match and re.search(rule.before, end.before):
            yield _Match(rank=rank, rule=rule, found=match)
            return


def _matches_anywhere(printed: Sequence[str], rules: Sequence[Rule]) -> Iterator[_Match]:
    warnings = [line for line in reversed(printed) if not _INFORMATION.match(line)]
    for rank, rule in enumerate(rules):
        first_match = next((match for line in warnings if (match := re.search(rule.log, line))), None)
        if first_match and not rule.echo and not rule.before and rule.frames is None:
            yield _Match(rank=rank, rule=rule, found=first_match)


def _likeliest(matches: Iterator[_Match]) -> _Match | None:
    return min(matches, key=lambda match: (match.rule.echo, match.rank), default=None)


def _diagnosis(match: _Match, *, lost_peer: bool = False, earlier: bool = False) -> Diagnosis:
    return Diagnosis(
        kind=match.rule.id,
        line=_cut(match.line, MAX_LINE),
        text=_cut(match.text, MAX_REASON),
        signature="" if earlier else signature(match.line),
        lost_peer=lost_peer,
        earlier=earlier,
    )


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
