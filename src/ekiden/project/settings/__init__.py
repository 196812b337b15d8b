"""Settings: `settings.json` of the user and of the project, environment and call, merged."""

from ekiden.project.settings.agreement import agent_names_check, check_default_agent
from ekiden.project.settings.changes import SettingChange, set_setting, unset_setting
from ekiden.project.settings.files import SettingsProblem, Where, settings_files
from ekiden.project.settings.keys import SETTINGS, Setting
from ekiden.project.settings.loaded import (
    LoadedSettings,
    SettingEntry,
    SettingOrigin,
    lookup_value,
    redacted,
    settings_schema,
)
from ekiden.project.settings.model import AgentsSettings, LocalModelSettings, Settings
from ekiden.project.settings.sources import load_settings

__all__ = [
    "SETTINGS",
    "AgentsSettings",
    "LoadedSettings",
    "LocalModelSettings",
    "Setting",
    "SettingChange",
    "SettingEntry",
    "SettingOrigin",
    "Settings",
    "SettingsProblem",
    "Where",
    "agent_names_check",
    "check_default_agent",
    "load_settings",
    "lookup_value",
    "redacted",
    "set_setting",
    "settings_files",
    "settings_schema",
    "unset_setting",
]
