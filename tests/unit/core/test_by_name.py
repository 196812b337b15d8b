"""Functions by their names, as files give them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ekiden.core.integrations.registry import NotImportable, import_by_name


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test puts on the path is gone after it."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_a_function_or_a_nested_attribute_is_imported() -> None:
    import json

    assert import_by_name("json:loads") is json.loads
    assert import_by_name("json.decoder:JSONDecoder.decode") is json.JSONDecoder.decode


def test_the_project_folder_is_searched_first_and_stays_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "by_name_here.py").write_text("def here(): return 'here'\n")
    for _ in range(2):
        assert import_by_name("by_name_here:here", root=tmp_path)() == "here"
    sys.path.append(sys.path.pop(0))
    assert import_by_name("by_name_here:here", root=tmp_path)() == "here"
    assert sys.path.count(str(tmp_path.resolve())) == 1


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import no_such_thing_at_all", "needs 'no_such_thing_at_all', which is not installed"),
        ("raise SystemExit(3)", "fails: SystemExit"),
        ("def f(:", "fails: SyntaxError"),
        ("def __getattr__(name): raise KeyError(name)", "it fails: KeyError"),
        ("", "has no 'f'"),
    ],
)
def test_every_import_failure_is_one_error_type(tmp_path: Path, source: str, told: str) -> None:
    name = f"by_name_bad_{abs(hash(source))}"
    (tmp_path / f"{name}.py").write_text(source + "\n")
    with pytest.raises(NotImportable, match=told) as caught:
        import_by_name(f"{name}:f", root=tmp_path)
    assert str(caught.value) == f"{name}:f cannot be used: {caught.value.problem}"
    assert (caught.value.module is not None) == (source == "")


@pytest.mark.parametrize("name", ["", "f", "a:", ":f", "a:b:c", "a b:c", "../a:f", "a:b-c"])
def test_a_name_without_a_colon_is_refused(name: str) -> None:
    with pytest.raises(NotImportable, match="write module:function"):
        import_by_name(name)


def test_a_missing_module_is_reported_as_missing(tmp_path: Path) -> None:
    with pytest.raises(NotImportable, match="in the path, and none is installed"):
        import_by_name("by_name_nowhere.inside:f")
    with pytest.raises(NotImportable, match="in the project's folder, and none is installed"):
        import_by_name("by_name_nowhere:f", root=tmp_path)


def test_a_module_of_the_same_name_from_elsewhere_is_refused(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def f(): pass\n")
    (tmp_path / "sys.py").write_text("def f(): pass\n")
    with pytest.raises(NotImportable, match="another module called 'json' is loaded already"):
        import_by_name("json:f", root=tmp_path)
    with pytest.raises(NotImportable, match="from Python itself"):
        import_by_name("sys:f", root=tmp_path)
