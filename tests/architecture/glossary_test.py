"""The words of docs/architecture.md are used, and those that gave way stay away."""

from __future__ import annotations

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PRODUCT = ("engine", "scheduler", "kernels", "cache", "bindings")

# Words that gave way to another one, which says the same.
RETIRED = {"doze": "back off", "secure": "retain memory"}


def read_words(page: str) -> list[str]:
    """The words of the glossary's tables, as their rows have them."""
    glossary = page.split("\n## Words\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", glossary, flags=re.MULTILINE)
    words: list[str] = []
    for row in rows:
        if row != "word" and not row.startswith("---"):
            words += row.split(", ")
    return words


def plain(word: str) -> str:
    """Without what a row says beside the word: `to follow (of a value)` is `follow`."""
    return re.sub(r" \(.*\)$", "", word).removeprefix("to ")


def split_words(text: str) -> list[str]:
    """All words of a text, also those of names: `kBackOff` is `k back off`."""
    return [each.lower() for each in re.findall(r"[A-Z]?[a-z]+|[A-Z]+", text)]


def forms_of(word: str) -> set[str]:
    """A word as verbs and nouns inflect it."""
    stem = word.removesuffix("e")
    doubled = word + word[-1]
    return {
        word,
        *(word + end for end in ("s", "es", "d", "ed", "ing")),
        *(stem + end for end in ("ed", "ing", "er")),
        *(doubled + end for end in ("ed", "ing")),
    }


def has(text: str, word: str) -> bool:
    """`text`: words with a space on either side."""
    *first, last = word.lower().split()
    return any(f" {' '.join([*first, form])} " in text for form in forms_of(last))


def read_product() -> str:
    """All words of the sources, with a space on either side of each."""
    words: list[str] = []
    for top in PRODUCT:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in {".h", ".cc", ".cu", ".py"}:
                words += split_words(path.read_text())
    return f" {' '.join(words)} "


class GlossaryTest(unittest.TestCase):
    def test_each_word_is_used(self) -> None:
        product = read_product()
        for word in read_words(PAGE.read_text()):
            with self.subTest(word):
                self.assertTrue(has(product, plain(word)), "nobody uses it")

    def test_each_row_stands_once(self) -> None:
        words = read_words(PAGE.read_text())
        self.assertGreater(len(words), 50)
        self.assertEqual(len(words), len(set(words)), sorted(words))

    def test_retired_words_stay_away(self) -> None:
        product = read_product()
        for word, instead in RETIRED.items():
            with self.subTest(word, instead=instead):
                self.assertFalse(has(product, word), "somebody uses it")

    def test_words_are_found_in_all_forms(self) -> None:
        text = f" {' '.join(split_words('kDozing, dozed_ // a lease, Back off'))} "
        for word in ("doze", "lease", "back off"):
            self.assertTrue(has(text, word), word)
        for word in ("dozen", "release", "back"):
            self.assertEqual(has(text, word), word == "back", word)


if __name__ == "__main__":
    unittest.main()
