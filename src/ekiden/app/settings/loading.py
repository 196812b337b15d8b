"""From files, environment and call to `Settings`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ekiden.app.settings.files import settings_files
from ekiden.app.settings.loaded import LoadedSettings
from ekiden.app.settings.merging import Merge
from ekiden.core.errors import SettingsInvalid


def load_settings(
    root: Path | None = None,
    *,
    overrides: Mapping[str, object] | None = None,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> LoadedSettings:
    """The settings that hold in the folder `root` (the current one by default).

    The first that says something of a setting decides: `overrides`, dotted names with values, of
    which those that are `None` were not given; the environment; the project's file; the user's;
    the default. MCP servers are taken one by one. Everything that is wrong, in both files and in
    the environment, is one `SettingsInvalid`, and so are settings that do not go together; a name
    in `overrides` that no setting has is `UnknownSetting`::

        loaded = load_settings(overrides={"agents.routing.strategy": "rule"})
        loaded.settings.agents.routing.strategy  # "rule"
        loaded.origin("model")  # SettingOrigin(kind="default")
    """
    merge = Merge()
    files = settings_files(root, home)
    if not files.are_one:
        merge.add_file(files, "user")
    merge.add_file(files, "project")
    merge.add_environment(os.environ if environ is None else environ)
    merge.add_call(overrides or {})
    if not merge.problems:
        merge.check_together()
    if merge.problems:
        raise SettingsInvalid(merge.problems)
    return merge.result()
