"""`dataclass` of the standard library, with classes that are made and filled faster.

The standard library compiles up to six functions for a class, which is half of the time that
importing the runtime takes, and fills frozen values through `object.__setattr__`. Here only
`__init__` is compiled, for the first value of a class, and it stores into the slots directly.
`fields`, `replace`, `asdict`, `inspect.signature`, pattern matching, pickling and subclasses work
as they do there.
"""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, repr=True, eq=True, frozen=False, slots=False, kw_only=False):
        """Make a class a data class; the options are those of the standard library."""

        def made(cls: type) -> type:
            bases = [base.__dict__.get("__dataclass_params__") for base in cls.__mro__[1:]]
            bases = [each for each in bases if each is not None]
            if any(each.frozen is not frozen for each in bases):
                raise TypeError(f"{cls.__name__}: freeze all of its base classes, or none")
            keeps_init = "__init__" in cls.__dict__
            keeps_hash = cls.__dict__.get("__hash__") is not None
            cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made from the signature
            for each in bases:
                each.frozen = False
            try:
                cls = dataclasses.dataclass(
                    cls, init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
                )
            finally:
                for each in bases:
                    each.frozen = frozen
            params = cls.__dataclass_params__
            params.init, params.repr, params.eq, params.frozen = True, repr, eq, frozen
            if not keeps_init:
                cls.__init__ = _Init(cls, frozen=frozen, slots=slots)
            if repr and "__repr__" not in cls.__dict__:
                cls.__repr__ = _repr(cls)
            if eq:
                _add_comparison(cls, frozen=frozen, keeps_hash=keeps_hash)
            if frozen:
                _freeze(cls, slots=slots)
            return cls

        return made if cls is None else made(cls)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


class _Init:
    """Stands for `__init__` until somebody looks for it."""

    def __init__(self, cls: Any, *, frozen: bool, slots: bool) -> None:
        self._cls, self._frozen, self._slots = cls, frozen, slots

    def __get__(self, instance: object, owner: type) -> Any:
        made = self._cls.__init__ = _init(self._cls, frozen=self._frozen, slots=self._slots)
        return made.__get__(instance, owner)


def _init(cls: type, *, frozen: bool, slots: bool) -> Any:
    """Compile `__init__`; defaults are added afterwards, so that the text has only names."""
    every = fields(cls)
    positional = [each for each in every if each.init and not each.kw_only]
    keyword = [each for each in every if each.init and each.kw_only]
    known: dict[str, Any] = {"_factory": _FACTORY, "_set": object.__setattr__}
    body = []
    for each in every:
        name = value = each.name
        if each.default_factory is not MISSING:
            known[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}()"
            if each.init:
                value += f" if {name} is _factory else {name}"
        elif not each.init:
            if each.default is MISSING or not slots:
                continue
            known[f"_default_{name}"] = each.default
            value = f"_default_{name}"
        if not frozen:
            body.append(f"_self.{name} = {value}")
        elif isinstance(slot := getattr(cls, name, None), MemberDescriptorType):
            known[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(_self, {value})")
        else:
            body.append(f"_set(_self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("_self.__post_init__()")
    defaults = [each.name for each in positional if _default(each) is not MISSING]
    listed = [f"{each.name}=0" if each.name in defaults else each.name for each in positional]
    if keyword:
        listed += ["*", *(each.name for each in keyword)]
    text = (
        f"def _made({', '.join(known)}):\n"
        f" def __init__({', '.join(['_self', *listed])}):\n  "
        + "\n  ".join(body or ["pass"])
        + "\n return __init__"
    )
    names: dict[str, Any] = {}
    exec(text, sys.modules[cls.__module__].__dict__, names)
    init = names["_made"](*known.values())
    init.__defaults__ = tuple(_default(each) for each in positional if each.name in defaults)
    init.__kwdefaults__ = {
        each.name: _default(each) for each in keyword if _default(each) is not MISSING
    }
    init.__annotations__ = {each.name: each.type for each in every if each.init} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else _FACTORY


def _repr(cls: type) -> Any:
    names = [each.name for each in fields(cls) if each.repr]

    @recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _add_comparison(cls: Any, *, frozen: bool, keeps_hash: bool) -> None:
    compared = _getter([each.name for each in fields(cls) if each.compare])

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is self.__class__:
            return bool(compared(self) == compared(other))
        return NotImplemented

    if "__eq__" not in cls.__dict__:
        cls.__eq__ = __eq__
    if keeps_hash:
        return
    if not frozen:
        cls.__hash__ = None
        return
    hashed = _getter(
        [each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)]
    )
    cls.__hash__ = lambda self: hash(hashed(self))


def _getter(names: list[str]) -> Any:
    return attrgetter(*names) if names else lambda _: ()


def _freeze(cls: Any, *, slots: bool) -> None:
    names = frozenset(each.name for each in fields(cls))

    def __setattr__(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
    if slots:
        for name, function in (("__getstate__", _state), ("__setstate__", _set_state)):
            if name not in cls.__dict__:
                setattr(cls, name, function)


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
