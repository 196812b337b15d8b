"""`ekiden init`, in this process."""

from __future__ import annotations

from tests.unit.cli.commands.conftest import Desk


def test_init_overwrites_no_files(desk: Desk) -> None:
    desk.settings("{}")
    mine = desk.agent("billing", "mine")
    again = desk("init", "--json")
    assert again.code == 0
    assert again.json["written"] == []
    assert len(again.json["kept"]) == 6
    assert mine.read_text() == "mine"
    assert "kept  .ekiden/settings.json\n" in desk("init").out


def test_init_accepts_a_folder(bare: Desk) -> None:
    made = bare("init", "--dir", "a/日本", "--json")
    assert (made.code, made.json["template"]) == (0, "support")
    assert (bare.folder / "a" / "日本" / ".ekiden" / "settings.json").exists()
    assert "  cd a/日本\n" in bare("init", "--dir", "a/日本").out


def test_init_prints_the_next_steps(bare: Desk) -> None:
    told = bare("init", "--template", "coding").out
    assert "wrote .ekiden/agents/debugger.md\n" in told
    assert "ekiden config set model" in told
    assert "  cd " not in told


def test_an_invalid_template_or_folder_is_refused(bare: Desk) -> None:
    assert bare("init", "--template", "cooking").code == 2
    (bare.folder / "taken").write_text("")
    refused = bare("init", "--dir", "taken", "--json")
    assert (refused.code, refused.error["code"]) == (2, "user.error")
    assert not (bare.folder / ".ekiden").exists()
