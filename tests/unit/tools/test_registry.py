"""Tools by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ekiden.core.errors import ToolUnusable, UnknownTool, UserError
from ekiden.tools import (
    ToolSettings,
    builtin_tools,
    function_tool,
    register_tool,
    registered_tools,
    registry,
    resolve_tool,
)
from tests.unit.tools.conftest import Run


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing stays registered or imported."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


class TestRegistering:
    async def test_a_registered_function_is_found_by_name(self, run: Run) -> None:
        @register_tool
        def shout(text: str) -> str:
            """Say it loud."""
            return text.upper()

        found = resolve_tool("shout")
        assert found is shout
        assert found.description == "Say it loud."
        assert (await run(found, text="hi")).output == "HI"

    def test_a_given_name_is_the_one_the_model_sees(self) -> None:
        @register_tool(name="loud")
        def shout(text: str) -> str:
            return text

        @function_tool(confirmation=True)
        def pay() -> None: ...

        paid = register_tool(pay, name="pay_now")
        assert resolve_tool("loud").spec.name == "loud"
        assert resolve_tool("pay_now") is paid
        assert (paid.spec.name, paid.confirmation) == ("pay_now", pay.confirmation)
        assert set(registered_tools()) == {"loud", "pay_now"}

    def test_a_name_invalid_for_providers_is_refused(self) -> None:
        @function_tool
        def pay() -> None: ...

        with pytest.raises(UserError, match="cannot be the name of a tool"):
            register_tool(pay, name="pay now!")

    def test_a_reloaded_module_replaces_only_its_own_tools(self) -> None:
        def shout() -> int:
            return 1

        first = register_tool(shout)
        second = register_tool(shout)
        assert resolve_tool("shout") is second is not first
        other = {"__name__": "other", "register_tool": register_tool, "shout": shout}
        with pytest.raises(UserError, match="has registered a tool called 'shout' already"):
            exec("register_tool(shout)", other)

    def test_a_registered_tool_overrides_a_built_in_one(self, tmp_path: Path) -> None:
        @register_tool
        def shell(command: str) -> str:
            return command

        builtins = builtin_tools(tmp_path, ToolSettings())
        assert resolve_tool("shell", builtins=builtins) is shell
        assert resolve_tool("read_file", builtins=builtins) is builtins["read_file"]


class TestUnknown:
    def test_an_unknown_tool_is_refused_with_a_suggestion(self, tmp_path: Path) -> None:
        builtins = builtin_tools(tmp_path, ToolSettings())
        with pytest.raises(UnknownTool, match="did you mean 'read_file'?") as unknown:
            resolve_tool("read-fiel", builtins=builtins)
        assert unknown.value.code == "tool.unknown"
        assert unknown.value.name == "read-fiel"

    def test_without_tools_the_error_lists_none(self) -> None:
        with pytest.raises(
            UnknownTool, match="known: none; name your own function as module:function"
        ):
            resolve_tool("x")

    @pytest.mark.parametrize("name", ["mcp:github/issues", "mcp__github__issues"])
    def test_an_mcp_tool_requires_a_connection(self, name: str) -> None:
        with pytest.raises(ToolUnusable, match="has to be connected first"):
            resolve_tool(name)


class TestModules:
    async def test_a_function_of_the_project_is_a_tool(self, tmp_path: Path, run: Run) -> None:
        (tmp_path / "zz_kitchen").mkdir()
        (tmp_path / "zz_kitchen" / "__init__.py").touch()
        (tmp_path / "zz_kitchen" / "stove.py").write_text(
            "def cook(what: str) -> str:\n    'Cook it.'\n    return f'hot {what}'\n"
        )
        tool = resolve_tool("zz_kitchen.stove:cook", root=tmp_path)
        assert (tool.name, tool.description) == ("cook", "Cook it.")
        assert (await run(tool, what="soup")).output == "hot soup"

    def test_a_function_tool_of_the_project_is_used_unchanged(self, tmp_path: Path) -> None:
        (tmp_path / "zz_bank.py").write_text(
            "from ekiden import function_tool\n"
            "@function_tool(name_override='pay_now', confirmation=True)\n"
            "def pay(): ...\n"
        )
        tool = resolve_tool("zz_bank:pay", root=tmp_path)
        assert tool.name == "pay_now"
        assert tool.confirmation is not None

    def test_the_project_folder_is_searched_first(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / f"zz_{name}.py").write_text("def f(): ...")
            (tmp_path / name / "zz_both.py").write_text(f"def f():\n    {name!r}\n")
        resolve_tool("zz_one:f", root=tmp_path / "one")
        resolve_tool("zz_two:f", root=tmp_path / "two")
        assert resolve_tool("zz_both:f", root=tmp_path / "one").description == "one"
        assert sys.path.count(str((tmp_path / "one").resolve())) == 1

    def test_a_module_of_another_project_is_refused(self, tmp_path: Path) -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "zz_same.py").write_text("def f(): ...")
        resolve_tool("zz_same:f", root=tmp_path / "one")
        assert resolve_tool("zz_same:f", root=tmp_path / "one").name == "f"
        with pytest.raises(ToolUnusable, match="another module called 'zz_same' is loaded"):
            resolve_tool("zz_same:f", root=tmp_path / "two")
        (tmp_path / "two" / "sys.py").write_text("def f(): ...")
        with pytest.raises(ToolUnusable, match="Python itself"):
            resolve_tool("sys:f", root=tmp_path / "two")

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("1 / 0", "module 'zz_bad' fails: ZeroDivisionError: division by zero"),
            ("def f(:", "fails: SyntaxError"),
            ("raise SystemExit(2)", "fails: SystemExit: 2"),
            ("import zz_not_there", "needs 'zz_not_there', which is not installed"),
            ("f = 3", "a tool is made from a function, not from 3"),
            ("class f: ...", "a tool is made from a function, not from f"),
            ("def __getattr__(name): raise OSError('broken')", "it fails: OSError: broken"),
        ],
    )
    def test_a_faulty_module_is_named(self, tmp_path: Path, text: str, problem: str) -> None:
        (tmp_path / "zz_bad.py").write_text(text)
        with pytest.raises(ToolUnusable) as unusable:
            resolve_tool("zz_bad:f", root=tmp_path)
        assert problem in str(unusable.value)
        assert unusable.value.code == "tool.unusable"

    def test_a_module_that_is_not_utf8_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "zz_latin.py").write_bytes(b"x = '\xe9'")
        with pytest.raises(ToolUnusable, match="SyntaxError"):
            resolve_tool("zz_latin:f", root=tmp_path)

    def test_a_missing_module_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(ToolUnusable, match="no module 'zz_none' in the project's folder"):
            resolve_tool("zz_none.sub:f", root=tmp_path)
        with pytest.raises(ToolUnusable, match="no module 'zz_none' in the path"):
            resolve_tool("zz_none:f")

    def test_a_missing_function_is_reported_with_the_existing_ones(self, tmp_path: Path) -> None:
        (tmp_path / "zz_shop.py").write_text("def refund(): ...\ndef _hidden(): ...\n")
        with pytest.raises(UnknownTool) as unknown:
            resolve_tool("zz_shop:refnud", root=tmp_path)
        assert str(unknown.value) == (
            "module 'zz_shop' has no 'refnud'; known: zz_shop:refund; "
            "did you mean 'zz_shop:refund'?"
        )

    @pytest.mark.parametrize(
        "name", ["m:Class.method", "m:", ":f", "a:b:c", "m f:g", "../m:f", "os:system()"]
    )
    def test_only_top_level_functions_can_be_named(self, name: str) -> None:
        with pytest.raises(ToolUnusable, match="write module:function"):
            resolve_tool(name)


class TestInert:
    """Names that are looked at without running a project's code."""

    async def test_an_inert_function_is_not_imported_and_cannot_be_called(
        self, tmp_path: Path, run: Run
    ) -> None:
        (tmp_path / "zz_evil.py").write_text("raise SystemExit('ran')\ndef f(): ...\n")
        before = list(sys.path)
        tool = resolve_tool("zz_evil:f", root=tmp_path, inert=True)
        assert tool.name == "zz_evil:f"
        assert "zz_evil" not in sys.modules
        assert sys.path == before
        with pytest.raises(ToolUnusable, match="not imported"):
            await run(tool)

    def test_the_format_of_an_inert_name_is_checked(self) -> None:
        with pytest.raises(ToolUnusable, match="write module:function"):
            resolve_tool("m:Class.method", inert=True)

    def test_functions_of_ekiden_are_imported_even_if_inert(self, tmp_path: Path) -> None:
        before = list(sys.path)
        tool = resolve_tool("ekiden.project.demo:lookup_order", root=tmp_path, inert=True)
        assert tool.name == "lookup_order"
        assert sys.path == before
        with pytest.raises(UnknownTool):
            resolve_tool("ekiden.project.demo:nothing", root=tmp_path, inert=True)
