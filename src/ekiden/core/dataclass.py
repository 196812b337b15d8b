"""A faster `dataclass`: classes are defined in less time, and frozen objects are created faster.

The standard library describes every field and compiles up to six functions when a class is defined,
which takes half of the import time of the runtime. It also fills frozen objects through
`object.__setattr__`. This module does all of this at first use, and compiles only `__init__`, which
writes to the slots directly. `fields`, `replace`, `asdict`, `inspect.signature`, pattern matching,
pickling and subclasses work as in the standard library; `InitVar` and `KW_ONLY` do not.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields
from functools import cache, partial
from operator import attrgetter, ge, gt, le, lt
from reprlib import recursive_repr
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

_P = ParamSpec("_P")
_T = TypeVar("_T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls=None, /, *, repr=True, eq=True, order=False, frozen=False, slots=False, kw_only=False
    ):
        """Make a class a data class. The options are the same as in the standard library."""
        params = _params(repr, eq, order, frozen, slots, kw_only)

        def decorate(cls: type) -> type:
            return _data_class(cls, params, slots=slots, kw_only=kw_only)

        return decorate if cls is None else decorate(cls)


@cache
def _params(repr: bool, eq: bool, order: bool, frozen: bool, slots: bool, kw_only: bool) -> Any:
    """The options as the standard library stores them in `__dataclass_params__`."""
    options = {"init": False, "repr": False, "eq": False, "slots": slots, "kw_only": kw_only}
    plain: Any = dataclasses.dataclass(**options)(type("Plain", (), {"__doc__": "-"}))
    params = plain.__dataclass_params__
    params.init, params.repr, params.eq, params.order = True, repr, eq, order
    params.frozen = frozen
    return params


class _AtFirstUse:
    """A class attribute that is computed at the first access, and then replaces itself."""

    def __init__(self, name: str, make: Callable[[Any], Any]) -> None:
        self._name, self._make = name, make
        self.cls: Any = None

    def __get__(self, instance: object, owner: type) -> Any:
        value = self._make(self.cls)
        setattr(self.cls, self._name, value)
        bind = getattr(type(value), "__get__", None)
        return value if bind is None else bind(value, instance, owner)


def _data_class(cls: Any, params: Any, *, slots: bool, kw_only: bool) -> type:
    frozen = params.frozen
    for base in cls.__mro__[1:]:
        if getattr(base.__dict__.get("__dataclass_params__"), "frozen", frozen) is not frozen:
            raise TypeError(f"{cls.__name__}: freeze all of its base classes, or none")
    has = cls.__dict__
    own = {
        name: (kind, getattr(cls, name, MISSING))
        for name, kind in cls.__annotations__.items()
        if not str(kind).startswith(("ClassVar", "typing.ClassVar"))
    }
    late: dict[str, Callable[[Any], Any]] = {
        "__dataclass_fields__": lambda cls: _fields(cls, own, kw_only=kw_only)
    }
    if "__match_args__" not in has:
        late["__match_args__"] = _match_args
    if "__init__" not in has:
        late["__init__"] = lambda cls: _init(cls, frozen=frozen, slots=slots)
    if params.eq and "__eq__" not in has:
        late["__eq__"] = _eq
    if params.order:
        late |= {f"__{each.__name__}__": partial(_ordered, each) for each in (lt, le, gt, ge)}
    added: dict[str, Any] = {"__dataclass_params__": params, "__replace__": dataclasses.replace}
    if params.eq and has.get("__hash__") is None:
        added["__hash__"] = None
        if frozen:
            late["__hash__"] = _hash
    if params.repr and "__repr__" not in has:
        added["__repr__"] = _repr
    finished: list[Any] = []
    if frozen:
        added["__setattr__"], added["__delattr__"] = _refusals(finished)
        if slots:
            added["__getstate__"] = has.get("__getstate__", _state)
            added["__setstate__"] = has.get("__setstate__", _set_state)
    # A class without a docstring would get one from its signature, which compiles `__init__`.
    added["__doc__"] = cls.__doc__ or cls.__name__
    waiting = [_AtFirstUse(*each) for each in late.items()]
    added |= zip(late, waiting, strict=True)
    if slots:
        cls = _with_slots(cls, own, added)
    else:
        for name, (_, default) in own.items():
            if not isinstance(default, Field):
                continue
            if default.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, default.default)
        for name, value in added.items():
            setattr(cls, name, value)
    finished.append(cls)
    for each in waiting:
        each.cls = cls
    return cls  # type: ignore[no-any-return]


def _with_slots(cls: Any, own: dict[str, Any], added: dict[str, Any]) -> Any:
    """A copy of the class with a slot for each of its own fields."""
    has = {name: value for name, value in cls.__dict__.items() if name not in own}
    has.pop("__dict__", None)
    has.pop("__weakref__", None)
    inherited = {name for base in cls.__mro__[1:] for name in base.__dict__.get("__slots__", ())}
    again = type(cls)(
        cls.__name__,
        cls.__bases__,
        has | added | {"__slots__": tuple(name for name in own if name not in inherited)},
    )
    again.__qualname__ = cls.__qualname__
    return again


def _fields(cls: type, own: dict[str, tuple[Any, Any]], *, kw_only: bool) -> dict[str, Field[Any]]:
    found: dict[str, Field[Any]] = {}
    for base in cls.__mro__[-1:0:-1]:
        found |= getattr(base, "__dataclass_fields__", {})
    for name, (kind, default) in own.items():
        if isinstance(default, MemberDescriptorType):  # the slot of a base class
            default = MISSING
        each: Any = default if isinstance(default, Field) else field(default=default)
        each.name, each.type = name, kind
        each._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
        if each.kw_only is MISSING:
            each.kw_only = kw_only
        found[name] = each
    return found


def _match_args(cls: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(cls) if each.init and not each.kw_only)


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def maker(cls: Callable[_P, _T]) -> Callable[_P, _T]:
    """A function that creates objects of a data class in half the time of a call of the class.

    When a class is called, Python first collects the keyword arguments in two dictionaries. When a
    function is called, Python passes them directly. Use `maker` only for classes with slots that
    have very many objects.
    """
    kind: Any = cls
    if kind.__dataclass_params__.frozen:
        # The slots of a plain object are set much faster. Then the object changes its class.
        kind = type(kind.__name__, (), {"__slots__": kind.__slots__})
    makes = _init(cast("type", cls), frozen=False, slots=True, makes=kind)
    return cast("Callable[_P, _T]", makes)


def _init(cls: type, *, frozen: bool, slots: bool, makes: type | None = None) -> Any:
    """Compile `__init__`, or with `makes` a function that also creates the object, at first of this
    class. Defaults are set afterwards, so that the source has names only."""
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
    if makes is not None and makes is not cls:
        body.append("_self.__class__ = _cls")
    if hasattr(cls, "__post_init__"):
        body.append("_self.__post_init__()")
    defaults = [each.name for each in positional if _default(each) is not MISSING]
    listed = [f"{each.name}=0" if each.name in defaults else each.name for each in positional]
    if keyword:
        listed += ["*", *(each.name for each in keyword)]
    if makes is not None:
        known |= {"_new": object.__new__, "_kind": makes, "_cls": cls}
        body = ["_self = _new(_kind)", *body, "return _self"]
    else:
        listed.insert(0, "_self")
    text = (
        f"def _made({', '.join(known)}):\n"
        f" def __init__({', '.join(listed)}):\n  "
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


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(
        f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr
    )
    return f"{self.__class__.__qualname__}({shown})"


def _eq(cls: Any) -> Any:
    compared = _getter([each.name for each in fields(cls) if each.compare])

    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is self.__class__:
            return bool(compared(self) == compared(other))
        return NotImplemented

    return __eq__


def _ordered(is_so: Callable[[Any, Any], bool], cls: Any) -> Any:
    """The comparison `is_so` of two values of the class, by their fields in order."""
    compared = _getter([each.name for each in fields(cls) if each.compare])

    def compare(self: Any, other: object) -> Any:
        if other.__class__ is self.__class__:
            return is_so(compared(self), compared(other))
        return NotImplemented

    return compare


def _hash(cls: Any) -> Any:
    hashed = _getter(
        [each.name for each in fields(cls) if (each.compare if each.hash is None else each.hash)]
    )
    return lambda self: hash(hashed(self))


def _getter(names: list[str]) -> Any:
    return attrgetter(*names) if names else lambda _: ()


def _refusals(finished: list[Any]) -> tuple[Any, Any]:
    """`__setattr__` and `__delattr__` of a frozen class. The class is in `finished` once it exists;
    setting the methods on a finished class is slow, because Python then updates all its slots."""

    def __setattr__(self: Any, name: str, value: object) -> None:
        (cls,) = finished
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        (cls,) = finished
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, each.name, value)
