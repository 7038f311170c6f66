"""`for:` in a recipe: a key with `{name}` in it stands for one key for each value of that name."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from hardneg.recipe.inheritance import REMOVED, is_removed, merge
from hardneg.records.wording import suggestion

FOR = "for"
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MOST = 50_000
_LONGEST = 1_000

_Scope = Mapping[str, Mapping[str, Any]]
"""The values of each name: what is written of each word by its attributes; the word itself is that of "" ."""
_Bound = Mapping[str, Mapping[str, Any]]


class _Unknown(Exception):
    """A placeholder that stands for nothing here."""


@dataclass
class Grids:
    """What is unrolled so far.

    origins: the path as it is written of every path that came out of a key with placeholders. problems: one line each.
    """

    origins: dict[tuple[str, ...], str]
    problems: list[str]
    count: int = 0

    def unroll(self, tree: Mapping[str, Any]) -> dict[str, Any]:
        """A recipe's tree with every `for` in its stages, or at its top, unrolled."""
        rest = {key: value for key, value in tree.items() if key != FOR}
        names = tree.get(FOR)
        scope = {} if is_removed(names) else self._named(names, (FOR,))
        stages = rest.get("stages")
        if isinstance(stages, Mapping):
            rest["stages"] = self._mapping(stages, scope, {}, ("stages",), ("stages",))
        return rest

    def _named(self, names: Any, path: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """The words of each name, each with its attributes."""
        if not isinstance(names, Mapping) or not names:
            self._complain(path, "must map a name to the words that it stands for")
            return {}
        kept = {str(name): words for name, words in names.items() if not is_removed(words)}
        return {name: self._words(words, (*path, name)) for name, words in kept.items()}

    def _words(self, words: Any, path: tuple[str, ...]) -> dict[str, Any]:
        if not _WORD.fullmatch(path[-1]):
            self._complain(path, "a name has letters, digits, '-' and '_'")
        if isinstance(words, list) and words and all(map(_is_plain, words)):
            known = {str(word): {"": word} for word in words}
            if len(known) < len(words):
                self._complain(path, "a word stands here twice")
            return known
        if isinstance(words, Mapping) and any(not is_removed(item) for item in words.values()):
            kept = {str(word): item for word, item in words.items() if not is_removed(item)}
            return {
                word: {"": word, **(item if isinstance(item, Mapping) else {"value": item})}
                for word, item in kept.items()
            }
        self._complain(path, "must be a list of words, or map words to what each has")
        return {}

    def _value(self, value: Any, scope: _Scope, bound: _Bound, path: tuple[str, ...], written: tuple[str, ...]) -> Any:
        if bound and self._too_many(written):
            return value
        if isinstance(value, Mapping):
            return self._mapping(value, scope, bound, path, written)
        if isinstance(value, list):
            return [self._value(item, scope, bound, path, written) for item in value]
        return self._filled(value, bound, written) if scope and isinstance(value, str) else value

    def _mapping(
        self, node: Mapping[str, Any], scope: _Scope, bound: _Bound, path: tuple[str, ...], written: tuple[str, ...]
    ) -> dict[str, Any]:
        generated: dict[str, Any] = {}
        plain: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for key, value in node.items():
            inner = self._inner(value, scope, (*written, str(key)))
            if isinstance(value, Mapping) and isinstance(value.get(FOR), Mapping):
                value = {name: item for name, item in value.items() if name != FOR}
            for new_key, now in self._keys(key, inner, bound, (*written, str(key))):
                location = (*path, str(new_key))
                item = self._value(value, inner, now, location, (*written, str(key)))
                if new_key == key and now is bound:
                    plain[new_key] = item
                elif new_key in generated:
                    self._complain((*written, str(key)), f"gives {new_key!r}, which {sources[new_key]!r} gives too")
                else:
                    generated[new_key], sources[new_key] = item, str(key)
                    self.origins[location] = ".".join((*written, str(key)))
        return _in_order(node, plain, generated, sources)

    def _inner(self, value: Any, scope: _Scope, written: tuple[str, ...]) -> _Scope:
        """The names that are known in a value and in its key: those around it, and those of its own `for`."""
        if not isinstance(value, Mapping) or not isinstance(value.get(FOR), Mapping):
            return scope
        own = self._named(value[FOR], (*written, FOR))
        for name in {*own} & {*scope}:
            self._complain((*written, FOR, name), "is the name of something around it already")
        return {**scope, **own}

    def _keys(self, key: Any, scope: _Scope, bound: _Bound, written: tuple[str, ...]) -> Iterator[tuple[Any, _Bound]]:
        """The keys that one with placeholders stands for, each with the words that it fixes."""
        if not scope or not isinstance(key, str):
            yield key, bound
            return
        names = dict.fromkeys(one[1].partition(".")[0] for one in _PLACEHOLDER.finditer(key) if one[1] is not None)
        free = [name for name in names if name in scope and name not in bound]
        for words in product(*(scope[name].values() for name in free)):
            if self._too_many(written):
                return
            now = {**bound, **dict(zip(free, words, strict=True))} if names else bound
            yield self._text(key, now, written, "a key"), now

    def _filled(self, text: str, bound: _Bound, written: tuple[str, ...]) -> Any:
        """A value with its placeholders replaced; one that is a placeholder and nothing else may be of any kind."""
        whole = _PLACEHOLDER.fullmatch(text)
        if whole is None or whole[1] is None:
            return self._text(text, bound, written, "a text")
        try:
            return _looked_up(whole[1], bound)
        except _Unknown as error:
            self._complain(written, str(error))
            return text

    def _text(self, text: str, bound: _Bound, written: tuple[str, ...], what: str) -> str:
        def word(match: re.Match[str]) -> str:
            if match[1] is None:
                return match[0][0]
            value = _looked_up(match[1], bound)
            if not _is_plain(value):
                raise _Unknown(f"{{{match[1]}}} is no word or number, which it must be within {what}")
            return str(value)

        try:
            filled = _PLACEHOLDER.sub(word, text)
        except _Unknown as error:
            self._complain(written, str(error))
            return text
        if len(filled) > _LONGEST:
            self._complain(written, f"comes to a text of over {_LONGEST} characters")
            return text
        return filled

    def _too_many(self, written: tuple[str, ...]) -> bool:
        self.count += 1
        if self.count == _MOST + 1:
            self._complain(written[:2], f"over {_MOST} values come out of `for` in all")
        return self.count > _MOST

    def _complain(self, path: tuple[str, ...], reason: str) -> None:
        line = f"{'.'.join(path)}: {reason}"
        if line not in self.problems:
            self.problems.append(line)


def _in_order(
    node: Mapping[str, Any], plain: Mapping[str, Any], generated: Mapping[str, Any], sources: Mapping[str, str]
) -> dict[str, Any]:
    """Plain keys and generated ones in the order of the file, the plain ones laid over."""
    ordered: dict[str, Any] = {}
    for key in node:
        ordered |= {name: item for name, item in generated.items() if sources[name] == key}
        ordered |= {key: plain[key]} if key in plain and key not in ordered else {}
    for key in {*plain} & {*generated}:
        ordered[key] = merge({key: generated[key]}, {key: plain[key]})[key]
    return {key: REMOVED if item is None and key in generated else item for key, item in ordered.items()}


def _looked_up(placeholder: str, bound: _Bound) -> Any:
    name, dot, attribute = placeholder.partition(".")
    if name not in bound:
        unknown, known = f"{{{placeholder}}} is unknown{suggestion(name, bound)}", ", ".join(bound) or "none"
        raise _Unknown(f"{unknown}; fixed by a key here: {known}; braces themselves: {{{{ }}}}")
    if attribute not in bound[name] or (dot and not attribute):
        hint, known = suggestion(attribute, bound[name]), ", ".join(filter(None, bound[name])) or "nothing"
        raise _Unknown(f"{{{placeholder}}}: {bound[name]['']!r} has no {attribute!r}{hint}; it has: {known}")
    return bound[name][attribute]


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float)
