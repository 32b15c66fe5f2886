"""Message of a validation problem: the given value, the allowed values, the fix, the key that was meant. Pure.

No message shows a secret. The keys that a model allows are read from its annotations.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel
from pydantic_core.core_schema import ErrorType

from xsft.base.forms import WORDS
from xsft.base.problems import Problem, error
from xsft.base.secrets import looks_secret, names_secret
from xsft.spec.keypath import key_part, key_path, printable, shown_text

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MAX_KEYS = 30
_MAX_NAME = 100
"""Length of a value whose form is tried in lower case: Python's `re` is not linear, as pydantic's is."""

# source: pydantic-core 2.x, the error types of its validation-error table
_EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}
_BOUNDS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda c: f"more than {c['gt']}",
    "greater_than_equal": lambda c: f"at least {c['ge']}",
    "less_than": lambda c: f"less than {c['lt']}",
    "less_than_equal": lambda c: f"at most {c['le']}",
    "too_short": lambda c: f"at least {c['min_length']} item(s)",
    "too_long": lambda c: f"at most {c['max_length']} item(s)",
    "string_too_short": lambda c: f"at least {c['min_length']} character(s)",
    "string_too_long": lambda c: f"at most {c['max_length']} character(s)",
    "finite_number": lambda _: "a finite number",
}
_SYNONYMS = {
    **dict.fromkeys(("lr", "peak_lr", "max_lr"), "learning_rate"),
    **dict.fromkeys(("epochs", "num_epochs", "epoch", "num_train_epochs"), "num_epoch"),
    **dict.fromkeys(("batch_size", "micro_batch_size", "per_device_train_batch_size"), "per_device_batch_size"),
    **dict.fromkeys(("seq_len", "seq_length", "max_seq_length", "max_length", "context_length"), "max_target_length"),
    **dict.fromkeys(("grad_accum", "gradient_accumulation", "accumulate_grad_batches"), "gradient_accumulation_steps"),
    **dict.fromkeys(("max_steps", "num_steps", "total_steps", "train_steps"), "steps"),
    **dict.fromkeys(("save_steps", "save_every", "checkpoint_every"), "checkpoint_period"),
    **dict.fromkeys(("dataset", "dataset_name", "dataset_path"), "hf_path"),
    **dict.fromkeys(("dtype", "precision"), "weight_dtype"),
    **dict.fromkeys(("seed", "data_seed"), "shuffle_seed"),
}
"""Names used by other trainers (Hugging Face, Lightning, NeMo), for keys that resemble none of xsft's."""
_PYDANTICS = frozenset(get_args(ErrorType))
_OLD_BOOLEANS = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
_SEXAGESIMAL = re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?")
_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")


class Complaint(Struct, frozen=True, kw_only=True):
    """One pydantic error, with its location split into keys of the file and labels of union members."""

    error: ErrorDetails
    model: type[BaseModel]
    path: tuple[str | int, ...]
    unions: tuple[tuple[int, str], ...]
    """For each union passed: the length of the path there, and the member's label."""
    parent: Any
    """Annotation of the parent of the last key; None if unknown."""
    annotation: Any
    """Annotation of the value itself; None if unknown."""
    is_key: bool
    """Whether the key is wrong, not its value."""

    @property
    def is_type_error(self) -> bool:
        return self.error["type"] in _EXPECTED

    @property
    def is_unknown_key(self) -> bool:
        return self.error["type"] == "extra_forbidden" or (self.is_key and self.error["type"] == "literal_error")

    @property
    def context(self) -> Mapping[str, Any]:
        return self.error.get("ctx") or {}


def describe(complaints: Sequence[Complaint], raw: Mapping[str, str]) -> Problem:
    """Return one problem for one or, for a union, several complaints about one value."""
    first = complaints[0]
    where = key_path(first.path)
    kind = first.error["type"]
    written = None if first.is_key else raw.get(where)
    if len(complaints) > 1 or first.is_type_error:
        return _wrong_type(complaints, where, written)
    if kind == "extra_forbidden":
        return _unknown_key(first, where)
    if kind == "missing":
        return error("missing-key", where, f"{where} is required{_hint(first.annotation)}", f"Add {where}.")
    if kind == "literal_error":
        return _not_an_option(first, where, written)
    if kind in _BOUNDS:
        allowed = _BOUNDS[kind](first.context)
        return error(
            "out-of-range", where, f"{_given_text(first, where, written)}; allowed: {allowed}", f"Give {allowed}."
        )
    return _by_its_own_words(first, where, written)


def _wrong_type(complaints: Sequence[Complaint], where: str, written: str | None) -> Problem:
    first = complaints[0]
    value = first.error["input"]
    expected = tuple(dict.fromkeys(e for c in complaints for e in _expected_values(c)))
    given_text = _given_text(first, where, written)
    if surprise := _surprise(value, expected, "" if names_secret(where) else written):
        read_as, fix = surprise
        message = f"{given_text}, which YAML reads as {read_as}; allowed: {_join_with_or(expected)}"
        return error("yaml-surprise", where, message, fix)
    return error("wrong-type", where, f"{given_text}; allowed: {_join_with_or(expected)}", _type_fix(value, expected))


def _expected_values(complaint: Complaint) -> tuple[str, ...]:
    kind = complaint.error["type"]
    if kind == "literal_error":
        return _allowed_values(complaint)
    if kind in _BOUNDS:
        return (_BOUNDS[kind](complaint.context),)
    named = _EXPECTED.get(kind)
    if named == "a mapping" and (keys := keys_of(complaint.annotation)):
        return (f"a mapping ({_words_text(keys)})",)
    return (named or _pattern(complaint) or printable(complaint.error["msg"]),)


def _surprise(value: object, expected: Sequence[str], written: str | None) -> tuple[str, str] | None:
    """Return (the value that YAML read, the fix) if the reader caused the wrong type; else None."""
    if written is not None and isinstance(value, bool | int | float) and "text" in expected:
        fix = f'Quote it: "{shown_text(written)}".' if written else "Quote it."
        return "true or false" if isinstance(value, bool) else "a number", fix
    if not isinstance(value, str):
        return None
    if "true or false" in expected and value.lower() in _OLD_BOOLEANS:
        return "text (YAML 1.2)", f"Write {_OLD_BOOLEANS[value.lower()]}."
    if _SEXAGESIMAL.fullmatch(value) and {"an integer", "a number"} & set(expected):
        return "text (YAML 1.2)", "Write one plain number."
    return None


def _type_fix(value: object, expected: Sequence[str]) -> str:
    numbers = {"an integer", "a number"} & set(expected)
    if isinstance(value, str) and numbers and _NUMBER.fullmatch(value):
        return "Remove the quotes."
    if isinstance(value, str) and "true or false" in expected and value.lower() in {"true", "false"}:
        return "Remove the quotes."
    if isinstance(value, float) and value.is_integer() and "an integer" in expected:
        return f"Write {int(value)}."
    if isinstance(value, str) and "a list" in expected:
        return "Put it in brackets: [a, b]."
    if value is None:
        return "Give a value, or remove the key to use its default."
    return f"Give {_join_with_or(expected)}."


def without_misspelt(complaints: Sequence[Complaint]) -> list[Complaint]:
    """Return the complaints without those of a missing key that is given misspelt: its unknown key is one problem."""
    meant: set[str] = set()
    for complaint in complaints:
        if complaint.error["type"] == "extra_forbidden":
            keys = keys_of(complaint.parent)
            for key in _meant_keys(str(complaint.path[-1]), keys, complaint.model):
                meant.add(key_path((*complaint.path[:-1], key)) if key in keys else key)
    return [c for c in complaints if c.error["type"] != "missing" or key_path(c.path) not in meant]


def _unknown_key(complaint: Complaint, where: str) -> Problem:
    key = str(complaint.path[-1])
    keys = keys_of(complaint.parent)
    similar = _meant_keys(key, keys, complaint.model)
    section = key_path(complaint.path[:-1]) or "the workload"
    fix = f"Did you mean {_join_with_or(similar)}?" if similar else "Remove the key."
    if key.isupper() and "env" in keys:  # a variable's name beside the section for variables
        fix = f"Write it under {key_path((*complaint.path[:-1], 'env'))}."
    return error("unknown-key", where, f"{key_part(key)} is not a key of {section}; allowed: {_words_text(keys)}", fix)


def _meant_keys(key: str, keys: Sequence[str], model: type[BaseModel]) -> Sequence[str]:
    """Return the key of this section that it resembles or is another word for, else the places of such a key."""
    word = _SYNONYMS.get(key.lower(), key)
    if word in keys:
        return (word,)
    similar = get_close_matches(key, keys, n=1) if word == key else []
    return similar or paths_to(model, word)[:2]


def _hint(annotation: Any) -> str:
    if options := options_of(annotation):
        return f"; allowed: {_words_text(options)}"
    keys = keys_of(annotation)
    return f"; it takes: {_words_text(keys)}" if keys else ""


def _not_an_option(complaint: Complaint, where: str, written: str | None) -> Problem:
    options = _allowed_values(complaint)
    value = complaint.error["input"]
    given_text = _shown_value(value, where, written)
    # The text of a number or a boolean may be an option that lacks only its quotes.
    if written is not None and written in options:
        message = f"given {given_text}, which YAML reads as a number"
        return error("yaml-surprise", where, message, f'Quote it: "{written}".')
    similar = get_close_matches(str(value), options, n=1)
    fix = f"Did you mean {similar[0]}?" if similar else f"Give {_join_with_or(options)}."
    name = "unknown-key" if complaint.is_key else "not-allowed"
    return error(name, where, f"given {given_text}; allowed: {_words_text(options)}", fix)


def _allowed_values(complaint: Complaint) -> tuple[str, ...]:
    """Return the allowed values from the annotation, else from pydantic's own sentence (`'a', 'b' or 'c'`)."""
    expected = str(complaint.context.get("expected") or "")
    annotated = () if complaint.is_key else options_of(complaint.annotation)
    return annotated or tuple(re.findall(r"'([^']*)'", expected)) or (expected,)


def _by_its_own_words(complaint: Complaint, where: str, written: str | None) -> Problem:
    """Return a problem with pydantic's message. Pydantic's own errors are `not-allowed`; a PydanticCustomError's type
    is the id, its context may hold the fix."""
    kind = complaint.error["type"]
    fix = str(complaint.context.get("fix", "Change the value."))
    if kind == "string_pattern_mismatch":
        pattern = _pattern(complaint)
        message = f"{_given_text(complaint, where, written)}; allowed: {pattern}"
        return error("wrong-form", where, message, _form_fix(complaint, where, pattern))
    message = printable(complaint.error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return error("not-allowed" if kind in _PYDANTICS else kind.replace("_", "-"), where, message, fix)


def _form_fix(complaint: Complaint, where: str, pattern: str) -> str:
    value = str(complaint.error["input"])
    if where.startswith("secrets.") and looks_secret(value):
        return "Revoke it, put its successor into a Secret with `xsft secret create`, and give the Secret's name here."
    if len(value) <= _MAX_NAME and re.fullmatch(str(complaint.context["pattern"]), value.lower()):
        return f"Write {value.lower()}."
    return f"Give {pattern}."


def _pattern(complaint: Complaint) -> str:
    pattern = complaint.context.get("pattern")
    return WORDS.get(str(pattern), f"text of the form {pattern}") if pattern else ""


def _given_text(complaint: Complaint, where: str, written: str | None) -> str:
    return f"given {_shown_value(complaint.error['input'], where, written)}"


def _shown_value(value: object, where: str, written: str | None) -> str:
    if value is None:
        return "no value (null)"
    if isinstance(value, Mapping):
        return f"a mapping ({_words_text(tuple(value))})" if value else "an empty mapping"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"a list of {len(value)}"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if written is not None:
        text = written
    if names_secret(where) or looks_secret(text):
        return "a value that is not shown (it may be a secret)"
    return f"'{shown_text(text)}'" if isinstance(value, str) else shown_text(text)


def _words_text(words: Sequence[object]) -> str:
    parts = [key_part(str(word)) for word in words[:_MAX_KEYS]]
    return ", ".join(parts) + (", …" if len(words) > _MAX_KEYS else "") or "nothing"


def _join_with_or(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) if words else "nothing"


def complaint_of(model: type[BaseModel], invalid: ErrorDetails) -> Complaint:
    """Return the error with its location, without labels: pydantic puts the class name or tag of a union's member into
    it, and those are not keys of the file."""
    path: list[str | int] = []
    unions: list[tuple[int, str]] = []
    annotation: Any = model
    parent: Any = None
    is_key = invalid["loc"][-1:] == ("[key]",)
    for part in invalid["loc"][:-1] if is_key else invalid["loc"]:
        if annotation is not None and len(options := members(annotation)) > 1:
            unions.append((len(path), str(part)))
            annotation = _member(options, str(part))
        else:
            path.append(part)
            parent = annotation
            annotation = child(annotation, part)
    return Complaint(
        error=invalid,
        model=model,
        path=tuple(path),
        unions=tuple(unions),
        parent=parent,
        annotation=annotation,
        is_key=is_key,
    )


def keys_of(annotation: Any) -> tuple[str, ...]:
    """Return the keys of a model, or of every model of a union."""
    return tuple(dict.fromkeys(key for member in members(annotation) for key in _fields_by_key(member)))


def paths_to(model: type[BaseModel], key: str) -> tuple[str, ...]:
    """Return the dotted paths of every section where the model has this key, e.g. `steps` -> `train.steps`."""
    return tuple(dict.fromkeys(p for p in _paths_of(model) if p.rpartition(".")[2] == key))


def options_of(annotation: Any) -> tuple[str, ...]:
    """Return every value of the Literals in an annotation, as text."""
    literals = (plain for plain in map(_unwrap, members(annotation)) if get_origin(plain) is Literal)
    return tuple(dict.fromkeys(str(option) for literal in literals for option in get_args(literal)))


def members(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union without None, one level deep, as pydantic labels them; anything else is its only
    member."""
    plain = _unwrap(annotation)
    if get_origin(plain) not in (Union, types.UnionType):
        return (plain,)
    inner = tuple(a for a in get_args(plain) if a is not type(None))
    return members(inner[0]) if len(inner) == 1 else inner


def child(annotation: Any, part: str | int) -> Any:
    """Return the annotation of one key or index; None if there is none."""
    options = members(annotation)
    plain = _unwrap(options[0])
    if len(options) > 1:
        return None
    return get_args(plain)[-1] if get_origin(plain) in (dict, list) else _fields_by_key(plain).get(str(part))


def _fields_by_key(annotation: Any) -> dict[str, Any]:
    plain = _unwrap(annotation)
    # A parametrised container is an instance of type, too, but has an origin.
    if not isinstance(plain, type) or get_origin(plain) or not issubclass(plain, BaseModel):
        return {}
    return {name: Annotated[field.annotation, field] for name, field in plain.model_fields.items()}


@cache
def _paths_of(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(_all_paths(model, ""))


def _all_paths(annotation: Any, above: str) -> Iterator[str]:
    for member in members(annotation):
        for key, field in _fields_by_key(member).items():
            path = f"{above}.{key}" if above else key
            yield path
            yield from _all_paths(field, path)


def _member(options: Sequence[Any], label: str) -> Any:
    """Return the member that pydantic's label means: a class by its name, a container by its origin."""
    for option in options:
        plain = _unwrap(option)
        origin = getattr(get_origin(plain), "__name__", "")
        if origin and label.startswith(f"{origin}["):
            return plain
        if getattr(plain, "__name__", "") == label:
            return plain
    return None


def _unwrap(annotation: Any) -> Any:
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    return annotation
