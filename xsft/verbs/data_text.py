"""The text of `xsft data`: examples with their trained tokens, and the figures of a sample."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial

from rich.text import Text

from xsft.data.examples import Piece, TokenSequence, Vocabulary, pieces, spans
from xsft.data.summary import Role, Summary
from xsft.launch.data_sample import DataInspection
from xsft.launch.prepare_data import PreparedFolder
from xsft.spec.keypath import printable
from xsft.verbs.console import console

BAR = 40
"""Characters of the longest bar."""

NumberedExample = tuple[int, TokenSequence]


def print_examples(found: Sequence[NumberedExample], vocabulary: Vocabulary, *, noun: str, with_ids: bool) -> None:
    show = partial(console(sys.stdout).print, highlight=False, soft_wrap=True)
    for row, one in found:
        for line in _example(row, one, vocabulary, noun, with_ids=with_ids):
            show(line)


def _example(row: int, one: TokenSequence, vocabulary: Vocabulary, noun: str, *, with_ids: bool) -> Iterator[Text]:
    yield Text(_head(row, one, noun), style="bold")
    border = 0
    packed = len(set(one.segments)) > 1
    for piece in pieces(one, vocabulary):
        if packed and piece.segment != border:
            border = piece.segment
            yield Text(f"  ── example {border} of this sequence", style="bold")
        yield _piece_line(piece, vocabulary)
        if with_ids:
            yield Text(f"          {' '.join(map(str, piece.ids))}", style="dim")
    if one.padding:
        yield Text(f"  padding {one.padding} x {_token_named(vocabulary, 'pad')}", style="dim")
    yield Text(f"  end     {_end_text(one, vocabulary)}", style="dim")


def _piece_line(piece: Piece, vocabulary: Vocabulary) -> Text:
    style = "green" if piece.part == "trained" else "dim"
    line = Text(f"  {piece.part:8}", style=style)
    for text, kind in spans(piece, vocabulary):
        line.append(printable_line(text), style=f"{style} reverse" if kind else style)
    return line


def _head(row: int, one: TokenSequence, noun: str) -> str:
    masked = one.length - one.trained_tokens
    cut = "; cut at max_target_length" if not one.padding else ""
    counts = f"{one.length} tokens, {one.trained_tokens} trained, {masked} masked, {one.padding} padding{cut}"
    return f"{noun} {row}: {counts}"


def _end_text(one: TokenSequence, vocabulary: Vocabulary) -> str:
    """Return a line on the special token that ends the trained text, and on the tokenizer's BOS and EOS."""
    end = one.end(vocabulary)
    if end is None:
        text = "no special token is trained at the end"
    else:
        kind = vocabulary.kinds[end]
        special = f" ({kind})" if kind != "special" else ""
        text = f"{printable_line(vocabulary.text((end,)))}{special} is trained at the end"
    first = one.inputs[0] if one.inputs else None
    began = "begins with BOS" if first is not None and vocabulary.kinds.get(first) == "BOS" else "begins without BOS"
    bos, eos = _token_named(vocabulary, "BOS"), _token_named(vocabulary, "EOS")
    return f"{text}; {began}; the tokenizer's BOS is {bos}, its EOS {eos}"


def _token_named(vocabulary: Vocabulary, kind: str) -> str:
    return next((printable_line(text) for name, text in vocabulary.named.items() if name == kind), "none")


def printable_line(text: str) -> str:
    """Return the text on one line, without control characters that act on the terminal."""
    return printable(text.replace("\n", "⏎").replace("\t", "⇥"))


def summary_lines(found: DataInspection) -> Iterator[str]:
    """Yield the lines of the summary; every figure names the rows that it counts."""
    summary = found.summary
    which = _which_rows(summary)
    for label, value, of in _figures(found, which):
        yield f"{label:<11} {value} [{of}]"
    yield f"lengths     tokens of an example before it is cut, examples [{which}]"
    yield from _bars(summary)


def _figures(found: DataInspection, which: str) -> Iterator[tuple[str, str, str]]:
    summary, reading = found.summary, found.reading
    yield "rows", f"{summary.sampled:,} read of {_rows_text(summary.rows)} in the {found.split} split", which
    if tokens := summary.tokens:
        yield "tokens", f"half at most {tokens.p50}, 90 % at most {tokens.p90}, the longest {tokens.max}", which
    yield "truncated", f"{summary.truncated:.1%} are longer than max_target_length {reading.limit}", which
    yield "no target", f"{summary.no_target:.1%} have no trained token", which
    yield "no end", f"{summary.no_end:.1%} of the uncut ones train no special token at the end", which
    yield "trained", f"{summary.trained:.1%} of the tokens", which
    yield "duplicates", f"{summary.duplicates:,} equal an earlier row", which
    if summary.in_other is not None:
        both = f"{which} against {summary.other_sampled:,} rows"
        same = (
            f"{summary.in_other:,} train the same tokens as one of the other split, {summary.whole_in_other:,} equal it"
        )
        yield "shared", same, both
    for role in summary.roles:
        yield "role", _role_text(role), which
    if summary.packing is not None:
        packed = f"the first {summary.packed_sequences} packed sequences"
        yield "packing", f"{summary.packing:.1%} of the positions are tokens", packed
    if summary.steps_per_epoch is not None and found.split == "train":
        each = f"{summary.steps_per_epoch:.1f} steps each"
        epochs = f"train.steps {reading.steps} is {summary.epochs or 0:.2f} of them"
        yield "epochs", f"{each}: {epochs}", which if summary.everything else f"estimated from {which}"


def _which_rows(summary: Summary) -> str:
    return f"all {summary.sampled:,} rows" if summary.everything else f"the first {summary.sampled:,} rows"


def _rows_text(rows: int | None) -> str:
    return "an unknown number of rows" if rows is None else f"{rows:,}"


def _role_text(role: Role) -> str:
    return f"{role.role}: {role.turns:,} messages, {role.empty:,} empty, {role.dropped:,} that the template drops"


def _bars(summary: Summary) -> Iterator[str]:
    most = max((count for _to, count in summary.histogram), default=0)
    for to, count in summary.histogram:
        yield f"{f'< {to}':>10}  {'█' * round(BAR * count / most) if most else ''} {count}"


def prepared_lines(made: PreparedFolder) -> Iterator[str]:
    prepared = made.prepared
    yield f"{'found' if made.found else 'prepared'}  {made.to}/{prepared.attempt}"
    for split, rows in prepared.rows.items():
        shards = [shard for shard in prepared.shards if shard.split == split]
        size = sum(shard.bytes for shard in shards)
        yield f"{split:8}  {rows:,} rows in {len(shards)} shards of {shards[0].rows:,}, {size / 1e6:,.1f} MB"
    if prepared.refused:
        yield f"left out  {prepared.refused:,} rows that cannot be trained on"
    yield "Replace the workload's data section by:"
