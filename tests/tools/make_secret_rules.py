"""Write xsft/base/secret_rules.toml: the rules of gitleaks that need no context, as Python's `re` reads them.

    .venv/bin/python -m tests.tools.make_secret_rules gitleaks/config/gitleaks.toml VERSION

A rule is left out where its shape alone says too little: where gitleaks also wants the vendor's name in front of the
value, or one of `WITHOUT`.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[2] / "xsft" / "base" / "secret_rules.toml"

WITHOUT = {
    "airtable-personnal-access-token": "needs the word airtable",
    "aws-amazon-bedrock-api-key-short-lived": "a constant, not the key",
    "clickhouse-cloud-api-secret-key": "four hexadecimal digits are no mark",
    "curl-auth-header": "xsft.base.secrets has authorization headers itself",
    "curl-auth-user": "a command line, not a value",
    "facebook-access-token": "needs the word facebook",
    "freemius-secret-key": "PHP's source",
    "hashicorp-tf-password": "needs the word password",
    "huggingface-access-token": "xsft.base.secrets takes other lengths and digits",
    "jwt": "xsft.base.secrets has it",
    "kubernetes-secret-yaml": "a manifest, not a value",
    "nuget-config-password": "XML's source",
    "private-key": "xsft.base.secrets has it, without its end too",
    "sidekiq-sensitive-url": "xsft.base.secrets hides what stands before a URL's host",
    "sourcegraph-access-token": "takes every git commit",
    "square-access-token": "takes base64 that begins with EAAA",
    "vault-service-token": "takes every name after `s.`",
}

END = (r"""(?:[\x60'"\s;]|\\[nr]|$)""", r"""(?:[\x60'"\s;]|\\[nr]|$|\b)""")
"""How gitleaks ends a rule: by a character of source code, which is no part of the value."""
CONTEXT = r"[\w.-]{0,50}?"

HEAD = """\
# Shapes of secrets: for each rule the words without which no text fits (in small letters), Shannon's entropy in bits a
# character that what fits must have, and a regular expression of Python's.
# source: gitleaks {version} (github.com/gitleaks/gitleaks), config/gitleaks.toml,
# by tests/tools/make_secret_rules.py, which says what is left out and changed. Its licence:
#
# MIT License
#
# Copyright (c) 2019 Zachary Rice
#
# Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
# documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
# rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
# persons to whom the Software is furnished to do so, subject to the following conditions:
#
# The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
# Software.
#
# THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
# WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
# COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
# OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""


def rules_text(config: dict[str, Any], *, version: str) -> str:
    """The whole file."""
    rows = "\n".join(_row(rule) for rule in config["rules"] if is_kept(rule))
    return f"{HEAD.format(version=version)}\n{rows}\n"


def is_kept(rule: dict[str, Any]) -> bool:
    pattern = rule.get("regex", "")
    return bool(pattern) and CONTEXT not in pattern and rule["id"] not in WITHOUT


def python_pattern(pattern: str) -> str:
    """RE2's syntax in Python's: `(?i)` in the middle becomes a group, no character after the value is taken, and a dot
    between letters is one.
    """
    for end in END:
        pattern = pattern.replace(end, "(?![A-Za-z0-9])")
    pattern = re.sub(r"\(\?:\[\^([^]]+)\]\|\\z\)", r"(?![\1])", pattern)
    pattern = re.sub(r"(?<=[a-z])\.(?=[a-z])", r"\\.", pattern)
    pattern = pattern.replace("[[:alnum:]]", "[A-Za-z0-9]").replace(r"\z", r"\Z")
    return _scoped(re.sub(r"\(\?P<\w+>", "(?:", pattern))


def _scoped(pattern: str) -> str:
    before, flag, after = pattern.partition("(?i)")
    if not flag:
        return pattern
    end = _group_end(after)
    return f"{before}(?i:{_scoped(after[:end])}){_scoped(after[end:])}"


def _group_end(text: str) -> int:
    """Return the end of the group that the text begins in."""
    depth, in_class, escaped = 0, False, False
    for index, character in enumerate(text):
        if escaped or character == "\\":
            escaped = not escaped
        elif in_class:
            in_class = character != "]"
        elif character == "[":
            in_class = True
        elif character == "(":
            depth += 1
        elif character == ")" and (depth := depth - 1) < 0:
            return index
    return len(text)


def _row(rule: dict[str, Any]) -> str:
    pattern = python_pattern(rule["regex"])
    re.compile(pattern)
    return "\n".join(_lines(rule, pattern))


def _lines(rule: dict[str, Any], pattern: str) -> Iterator[str]:
    yield f"[{rule['id']}]"
    yield f"words = {json.dumps(rule['keywords'])}"
    if "entropy" in rule:
        yield f"entropy = {rule['entropy']}"
    yield f"pattern = '''{pattern}'''"


if __name__ == "__main__":
    source, version = sys.argv[1:]
    config = tomllib.loads(Path(source).read_text(encoding="utf-8"))
    OUT.write_text(rules_text(config, version=version), encoding="utf-8")
