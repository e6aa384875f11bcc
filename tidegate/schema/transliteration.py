"""A name that a column can have, for a name that it cannot have."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from itertools import chain, count

_LONGEST = 63
_LETTERS = str.maketrans(
    {
        "ä": "ae",
        "ö": "oe",
        "ü": "ue",
        "ß": "ss",
        "æ": "ae",
        "ø": "o",
        "œ": "oe",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "th",
    }
)
"""Letters that Unicode does not take apart, and those that German writes as two."""


def column_name(name: str, used: Collection[str] = ()) -> str:
    """A name that a column can have for the name of a field: ``groesse`` for ``Größe``.

    Args:
        name: The name in records.
        used: Names in lower case that the result must differ from; then it ends with a number.
    """
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", unicodedata.normalize("NFC", name))
    letters = unicodedata.normalize("NFKD", spaced.lower().translate(_LETTERS))
    plain = re.sub(r"[^a-z0-9]+", "_", "".join(each for each in letters if not unicodedata.combining(each))).strip("_")
    if not plain[:1].isalpha():
        plain = f"field_{plain}".rstrip("_")
    plain = plain[:_LONGEST].rstrip("_")
    return next(each for each in chain([plain], (f"{plain}_{number}" for number in count(2))) if each not in used)
