"""`read_file` and `write_file`: what they do, and that they stay in the project's folder."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ekiden.core.errors import ToolError
from ekiden.core.profile import Confirmation
from ekiden.core.text.wording import BUILTIN_TOOLS
from ekiden.tools.builtin import BUILTIN_NAMES, builtin_tools
from ekiden.tools.builtin.files import ProjectFiles
from ekiden.tools.settings import FileToolSettings, ToolSettings
from tests.unit.tools.conftest import Run

ROOT_USER = os.geteuid() == 0


@pytest.fixture(params=[True, False], ids=["by handle", "by path"])
def by_handle(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (tmp_path / "outside.txt").write_text("outside")
    (tmp_path / "project-twin").mkdir()
    (tmp_path / "project-twin" / "a.txt").write_text("twin")
    return root


@pytest.fixture
def files(root: Path, by_handle: bool) -> ProjectFiles:
    return ProjectFiles(root, FileToolSettings(max_bytes=1000), by_handle=by_handle)


@pytest.fixture
def elsewhere(root: Path) -> Path:
    folder = root.parent / "elsewhere"
    folder.mkdir()
    (folder / "a.txt").write_text("outside")
    return folder


@contextmanager
def swapping(swap: Callable[[], None]) -> Iterator[None]:
    """Calls `swap` again and again meanwhile."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            swap()

    swapper = threading.Thread(target=work)
    swapper.start()
    try:
        yield
    finally:
        stop.set()
        swapper.join()


def outcome(attempt: Callable[[], str]) -> str:
    try:
        return attempt()
    except ToolError:
        return "refused"


class TestReading:
    def test_read_file_returns_the_content_unchanged(self, root: Path, files: ProjectFiles) -> None:
        (root / "docs").mkdir()
        (root / "docs" / "日本語 🙂.md").write_text("一\n二\n", encoding="utf-8")
        assert files.read_file("docs/日本語 🙂.md") == "一\n二\n"
        assert files.read_file("./docs//../docs/日本語 🙂.md") == "一\n二\n"
        assert files.read_file(str(root / "docs" / "日本語 🙂.md")) == "一\n二\n"

    def test_a_part_of_a_file_has_a_note_about_the_rest(
        self, root: Path, files: ProjectFiles
    ) -> None:
        (root / "a").write_text("one\ntwo\nthree\nfour\n")
        cut = "two\nthree\n[lines 2 to 3 of 4; go on with start_line 4]"
        assert files.read_file("a", 2, 2) == cut
        assert files.read_file("a", 3) == "three\nfour\n"
        assert files.read_file("a", 4, 9) == "four\n"
        with pytest.raises(ToolError, match="has 4 lines, and none at 5"):
            files.read_file("a", 5)
        with pytest.raises(ToolError, match="must be 1 or more"):
            files.read_file("a", 0)

    def test_an_empty_file_is_empty(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").write_text("")
        assert files.read_file("a", 1, 5) == ""

    def test_a_byte_order_mark_is_removed(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").write_bytes(b"\xef\xbb\xbfhi")
        assert files.read_file("a") == "hi"

    @pytest.mark.parametrize(
        ("data", "problem"),
        [
            (b"\xff\xfe\x00", "not text in UTF-8"),
            (b"a\0b", "zero bytes"),
            (b"x" * 1001, "1,001 bytes, more than tools.files.max_bytes allows (1,000)"),
            (b"# mine\n-----BEGIN OPENSSH PRIVATE KEY-----\n", "private key"),
        ],
    )
    def test_an_undisplayable_file_is_refused(
        self, root: Path, files: ProjectFiles, data: bytes, problem: str
    ) -> None:
        (root / "a.txt").write_bytes(data)
        with pytest.raises(ToolError) as refused:
            files.read_file("a.txt")
        assert problem in str(refused.value)

    def test_a_missing_file_is_reported_with_a_suggestion(
        self, root: Path, files: ProjectFiles
    ) -> None:
        (root / "README.md").touch()
        with pytest.raises(ToolError, match="no file 'REAMDE.md'; did you mean 'README.md'?"):
            files.read_file("REAMDE.md")

    def test_reading_a_folder_lists_its_content(self, root: Path, files: ProjectFiles) -> None:
        with pytest.raises(ToolError, match="'.' is a folder, with nothing"):
            files.read_file(".")
        (root / "src").mkdir()
        for number in range(105):
            (root / "src" / f"{number:03}").touch()
        (root / "src" / "000dir").mkdir()
        with pytest.raises(ToolError) as told:
            files.read_file("src")
        assert "'src' is a folder, with 000, 000dir/, 001" in str(told.value)
        assert str(told.value).endswith(" and 6 more")

    @pytest.mark.skipif(ROOT_USER, reason="root may read everything")
    def test_a_file_without_permission_is_reported(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").write_text("x")
        (root / "a").chmod(0)
        with pytest.raises(ToolError, match="Permission denied"):
            files.read_file("a")

    @pytest.mark.parametrize(
        "name",
        [
            ".env", ".env.local", ".ENV", "id_rsa", "server.pem", "tls.key", ".netrc",
            ".pypirc", ".ssh/config", "deep/.aws/credentials", ".e\u200bnv", "credentials",
            ".npmrc", "prod.env", "Prod.ENV", "prod.env.local", ".env-prod", ".env~", ".env.bak",
            "secrets.yaml", "secret.json", "app-secrets.toml", "secrets.prod.yml", ".secrets",
            "secrets/db", "credentials.json", "credentials-prod.json", "aws_credentials.ini",
            ".git/config", ".git/modules/sub/config", ".gitconfig", ".hg/hgrc",
            ".docker/config.json", ".kube/config", "passwords.txt", "api_keys.json", ".mcp.json",
            ".claude/settings.local.json", "main.tfvars", "token.json", "example.com.key",
        ],
    )  # fmt: skip
    def test_credentials_are_neither_read_nor_written(
        self, root: Path, files: ProjectFiles, name: str
    ) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("secret")
        (root / "harmless.txt").symlink_to(root / name)
        for path in (name, "harmless.txt"):
            with pytest.raises(ToolError, match="kept from agents"):
                files.read_file(path)
            with pytest.raises(ToolError, match="kept from agents|nothing is written in"):
                files.write_file(path, "mine")
        assert (root / name).read_text() == "secret"

    @pytest.mark.parametrize(
        "name",
        [
            ".env.example", "id_rsa.pub", "environment.py", "keys.md", "env.py", "example.env",
            "secrets.py", "credentials.md", "test_secrets.py", "secrets.example.yaml",
            "secrets.yaml.template", "secretary.txt", "tokens.json", "password-reset.txt",
            ".git/HEAD", "config", "settings.json", ".ekiden/agents/clerk.md", ".ekiden/notes.md",
            ".claude/agents/a.md", "~",
        ],
    )  # fmt: skip
    def test_files_that_only_resemble_credentials_are_read(
        self, root: Path, files: ProjectFiles, name: str
    ) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("ok")
        assert files.read_file(name) == "ok"

    @pytest.mark.parametrize(
        "name",
        ["ekiden.db", "ekiden.db-wal", "EKIDEN.DB", "settings.json", "settings.json~", "history"],
    )
    def test_stores_and_settings_of_ekiden_are_not_read(
        self, root: Path, files: ProjectFiles, name: str
    ) -> None:
        (root / ".ekiden").mkdir()
        (root / ".ekiden" / name).write_text("x")
        (root / "harmless.txt").symlink_to(f".ekiden/{name}")
        (root / "folder").symlink_to(".ekiden")
        for path in (f".ekiden/{name}", "harmless.txt", f"folder/{name}"):
            with pytest.raises(ToolError, match="one of Ekiden's own files"):
                files.read_file(path)

    @pytest.mark.parametrize("of", ["project", "user"])
    def test_symlinked_settings_are_not_read_at_their_target(
        self, root: Path, files: ProjectFiles, of: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = root.parent / "home"
        monkeypatch.setattr(Path, "home", lambda: home)
        folder = (root if of == "project" else home) / ".ekiden"
        folder.mkdir(parents=True)
        (root / "shared.json").write_text("{}")
        (root / "other.json").write_text("{}")
        (folder / "settings.json").symlink_to(root / "shared.json")
        os.link(root / "shared.json", root / "twin.json")
        for path in ("shared.json", "twin.json"):
            with pytest.raises(ToolError, match="one of Ekiden's own files"):
                files.read_file(path)
        assert files.read_file("other.json") == "{}"

    def test_a_symlink_named_like_a_credential_is_not_read(
        self, root: Path, files: ProjectFiles
    ) -> None:
        (root / "values.txt").write_text("secret")
        (root / ".env").symlink_to("values.txt")
        (root / "harmless").symlink_to(".env")
        for path in (".env", "harmless"):
            with pytest.raises(ToolError, match="kept from agents"):
                files.read_file(path)
            with pytest.raises(ToolError, match="kept from agents"):
                files.write_file(path, "mine")

    def test_without_a_home_folder_the_project_is_still_protected(
        self, root: Path, files: ProjectFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def nobody() -> Path:
            raise RuntimeError("no home")

        monkeypatch.setattr(Path, "home", nobody)
        (root / "a.txt").write_text("ok")
        assert files.read_file("a.txt") == "ok"


class TestStayingInside:
    @pytest.mark.parametrize(
        "path",
        [
            "../outside.txt", "a/../../outside.txt", "/etc/passwd", "../project-twin/a.txt",
            "{root}/../outside.txt", "{root}-twin/a.txt", "a/b/../../../outside.txt",
            "missing/../../outside.txt", "..", "/",
        ],
    )  # fmt: skip
    def test_no_path_leads_outside_the_project(
        self, root: Path, files: ProjectFiles, path: str
    ) -> None:
        (root / "a" / "b").mkdir(parents=True)
        path = path.format(root=root)
        with pytest.raises(ToolError, match="outside of the project|does not exist"):
            files.read_file(path)
        with pytest.raises(ToolError, match="outside of the project|does not exist"):
            files.write_file(path, "x")
        assert (root.parent / "outside.txt").read_text() == "outside"

    @pytest.mark.parametrize("target", ["../outside.txt", "{outside}", "sub/../../outside.txt"])
    def test_no_symlink_leads_outside_the_project(
        self, root: Path, files: ProjectFiles, target: str
    ) -> None:
        (root / "sub").mkdir()
        (root / "link").symlink_to(target.format(outside=root.parent / "outside.txt"))
        (root / "folder").symlink_to(root.parent)
        for path in ("link", "folder/outside.txt"):
            with pytest.raises(ToolError, match="outside of the project"):
                files.read_file(path)
            with pytest.raises(ToolError, match="outside of the project"):
                files.write_file(path, "x")
        assert (root.parent / "outside.txt").read_text() == "outside"

    def test_symlinks_inside_the_project_are_followed(
        self, root: Path, files: ProjectFiles
    ) -> None:
        (root / "real").mkdir()
        (root / "real" / "a.txt").write_text("here")
        (root / "short").symlink_to("real")
        (root / "absolute").symlink_to(root / "real" / "a.txt")
        (root / "real" / "back").symlink_to("../short/a.txt")
        assert files.read_file("short/a.txt") == "here"
        assert files.read_file("absolute") == "here"
        assert files.read_file("short/back") == "here"
        assert files.write_file("absolute", "there") == "real/a.txt: overwritten, 5 bytes"
        assert (root / "absolute").is_symlink()
        assert (root / "real" / "a.txt").read_text() == "there"

    def test_a_project_reached_through_a_symlink_is_the_same(
        self, root: Path, by_handle: bool
    ) -> None:
        (root / "a.txt").write_text("here")
        alias = root.parent / "alias"
        alias.symlink_to(root)
        files = ProjectFiles(alias, FileToolSettings(), by_handle=by_handle)
        assert files.read_file(str(alias / "a.txt")) == "here"
        assert files.read_file(str(root / "a.txt")) == "here"

    def test_cyclic_symlinks_are_refused(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").symlink_to("b")
        (root / "b").symlink_to("a")
        with pytest.raises(ToolError, match="too many links"):
            files.read_file("a")

    def test_a_folder_swapped_for_a_symlink_concurrently_never_leads_outside(
        self, root: Path, elsewhere: Path
    ) -> None:
        (root / "a").mkdir()
        (root / "a" / "a.txt").write_text("inside")
        (root / "link").symlink_to(elsewhere)

        def swap() -> None:
            os.rename(root / "a", root / "spare")
            os.rename(root / "link", root / "a")
            os.rename(root / "a", root / "link")
            os.rename(root / "spare", root / "a")

        files = ProjectFiles(root, FileToolSettings())
        with swapping(swap):
            seen = {outcome(lambda: files.read_file("a/a.txt")) for _ in range(300)}
        assert seen <= {"inside", "refused"}

    def test_a_symlink_changed_concurrently_never_lets_a_write_outside(
        self, root: Path, elsewhere: Path
    ) -> None:
        (root / "real").mkdir()
        (root / "a").symlink_to("real")

        def swap() -> None:
            for target in (elsewhere, Path("real")):
                (root / "new").symlink_to(target)
                os.replace(root / "new", root / "a")

        files = ProjectFiles(root, FileToolSettings())
        with swapping(swap):
            for _ in range(100):
                outcome(lambda: files.write_file("a/b.txt", "x"))
                outcome(lambda: files.write_file("a/c/d.txt", "x"))
        assert os.listdir(elsewhere) == ["a.txt"]
        assert sorted(os.listdir(root)) == ["a", "real"]

    def test_an_invalid_file_name_is_reported(self, files: ProjectFiles) -> None:
        for path in ("", "a\0b", "\ud800"):
            with pytest.raises(ToolError, match="cannot be the name of a file"):
                files.read_file(path)
        with pytest.raises(ToolError, match="cannot be opened"):
            files.read_file("x" * 5000)
        with pytest.raises(ToolError, match="too many parts"):
            files.read_file("a/" * 600)

    def test_a_file_in_place_of_a_folder_is_refused(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").write_text("x")
        with pytest.raises(ToolError, match="'a' is not a folder"):
            files.write_file("a/b", "x")

    def test_pipes_devices_and_sockets_are_refused_without_blocking(
        self, root: Path, files: ProjectFiles, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        os.mkfifo(root / "pipe")
        monkeypatch.chdir(root)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("sock")
            for name in ("pipe", "sock"):
                with pytest.raises(ToolError, match="not a regular file"):
                    files.read_file(name)
                with pytest.raises(ToolError, match="not a regular file"):
                    files.write_file(name, "x")

    def test_a_missing_project_folder_is_reported(self, root: Path, by_handle: bool) -> None:
        files = ProjectFiles(root / "gone", FileToolSettings(), by_handle=by_handle)
        with pytest.raises(ToolError):
            files.read_file("a.txt")


class TestWriting:
    def test_write_file_reports_whether_the_file_is_new(
        self, root: Path, files: ProjectFiles
    ) -> None:
        assert files.write_file("a/b/c.txt", "für 🙂") == "a/b/c.txt: created, 9 bytes"
        assert files.write_file("a/b/c.txt", "") == "a/b/c.txt: overwritten, 0 bytes"
        assert (root / "a" / "b" / "c.txt").read_bytes() == b""
        assert os.listdir(root / "a" / "b") == ["c.txt"]

    def test_the_mode_of_a_file_is_kept(self, root: Path, files: ProjectFiles) -> None:
        (root / "run.sh").write_text("x")
        (root / "run.sh").chmod(0o750)
        files.write_file("run.sh", "y")
        assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o750

    def test_a_write_protected_file_is_not_changed(self, root: Path, files: ProjectFiles) -> None:
        (root / "a").write_text("x")
        (root / "a").chmod(0o444)
        with pytest.raises(ToolError, match="write-protected"):
            files.write_file("a", "y")

    @pytest.mark.skipif(ROOT_USER, reason="root may write everywhere")
    def test_a_folder_without_permission_is_reported(self, root: Path, files: ProjectFiles) -> None:
        (root / "locked").mkdir()
        (root / "locked").chmod(0o555)
        with pytest.raises(ToolError, match="'locked/a' was not written: Permission denied"):
            files.write_file("locked/a", "x")

    def test_content_too_large_or_with_lone_surrogates_is_refused(
        self, root: Path, files: ProjectFiles
    ) -> None:
        with pytest.raises(ToolError, match="1,001 bytes"):
            files.write_file("a", "x" * 1001)
        with pytest.raises(ToolError, match="half characters"):
            files.write_file("a", "\ud800")
        with pytest.raises(ToolError, match="is a folder"):
            files.write_file(".", "x")
        assert os.listdir(root) == []

    @pytest.mark.parametrize(
        "path",
        [
            ".git/hooks/pre-commit", ".GIT/config", "sub/.git", ".ekiden/settings.json",
            ".ekiden/agents/me.md", ".ekiden/ekiden.db", ".claude/agents/x.md", ".g\u200cit/config",
            ".agents/agents/x.md",
        ],
    )  # fmt: skip
    def test_files_that_control_agents_are_not_written(
        self, root: Path, files: ProjectFiles, path: str
    ) -> None:
        with pytest.raises(ToolError, match="nothing is written in"):
            files.write_file(path, "x")
        assert os.listdir(root) == []

    def test_a_failed_write_leaves_the_old_file_and_no_temporary_file(
        self, root: Path, files: ProjectFiles
    ) -> None:
        (root / "a").write_text("old")
        name = "x" * 300
        with pytest.raises(ToolError, match="too long"):
            files.write_file(f"new/{name}", "x")
        assert (root / "a").read_text() == "old"
        assert list(root.rglob("*.tmp")) == []


class TestAsTools:
    async def test_built_in_tools_need_approval_unless_disabled(self, tmp_path: Path) -> None:
        tools = builtin_tools(tmp_path, ToolSettings())
        assert tuple(tools) == BUILTIN_NAMES
        assert tuple(sorted(tools)) == BUILTIN_TOOLS
        assert all(tools[name].confirmation == Confirmation() for name in tools)
        quiet = builtin_tools(tmp_path, ToolSettings(ask=False))
        assert all(quiet[name].confirmation is None for name in quiet)
        assert tools["shell"] is tools["shell"]
        assert tools.get("rm") is None

    @pytest.mark.parametrize(
        ("name", "arguments", "scope"),
        [
            ("shell", '{"command": "git log -3"}', "git"),
            ("shell", '{"command": "ls", "command": "\'bin/do it\' now"}', "bin/do it"),
            ("http_get", '{"url": "https://Docs.Example.com/a?b"}', "docs.example.com"),
            ("http_get", '{"url": "http://[::1]:8080/"}', "[::1]:8080"),
        ],
    )
    def test_an_always_approval_covers_one_program_or_one_site(
        self, tmp_path: Path, name: str, arguments: str, scope: str
    ) -> None:
        scope_of = builtin_tools(tmp_path, ToolSettings())[name].confirmation_scope
        assert scope_of is not None
        assert scope_of(arguments) == scope

    @pytest.mark.parametrize("name", ["shell", "http_get"])
    @pytest.mark.parametrize(
        "arguments",
        ["", "[]", "{}", '{"command": "a; b", "url": "ftp://x"}', '{"command": 1, "url": 1}'],
    )
    def test_a_malformed_call_has_no_always_scope(
        self, tmp_path: Path, name: str, arguments: str
    ) -> None:
        scope_of = builtin_tools(tmp_path, ToolSettings())[name].confirmation_scope
        assert scope_of is not None
        with pytest.raises((ToolError, ValueError, LookupError, TypeError, AttributeError)):
            scope_of(arguments)

    async def test_a_refusal_is_reported_to_the_model(self, tmp_path: Path, run: Run) -> None:
        tools = builtin_tools(tmp_path, ToolSettings())
        result = await run(tools["read_file"], path="../x", start_line=1, max_lines=None)
        assert result.output.startswith("Error: '../x' is outside of the project's folder")
        assert result.error is not None

    async def test_invalid_arguments_are_reported_to_the_model(
        self, tmp_path: Path, run: Run
    ) -> None:
        result = await run(builtin_tools(tmp_path, ToolSettings())["write_file"], path=3)
        assert "do not fit" in result.output

    async def test_a_written_file_is_read_back(self, tmp_path: Path, run: Run) -> None:
        tools = builtin_tools(tmp_path, ToolSettings())
        await run(tools["write_file"], path="a.txt", content="hello")
        assert (await run(tools["read_file"], path="a.txt")).output == "hello"
