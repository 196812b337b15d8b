"""Settings: `settings.json` of the user and of the project, environment and call, merged."""

from ekiden.app.settings.files import SettingsFiles, Where, settings_files
from ekiden.app.settings.keys import SETTINGS, Setting
from ekiden.app.settings.loaded import LoadedSettings, SettingEntry, SettingOrigin, value_among
from ekiden.app.settings.loading import load_settings
from ekiden.app.settings.model import AgentsSettings, ChatSettings, LocalSettings, Settings
from ekiden.app.settings.naming import agent_names_check, check_default_agent
from ekiden.app.settings.problems import SettingsProblem
from ekiden.app.settings.redaction import redacted
from ekiden.app.settings.schema import settings_schema
from ekiden.app.settings.writing import Change, set_setting, unset_setting

__all__ = [
    "SETTINGS",
    "AgentsSettings",
    "Change",
    "ChatSettings",
    "LoadedSettings",
    "LocalSettings",
    "Setting",
    "SettingEntry",
    "SettingOrigin",
    "Settings",
    "SettingsFiles",
    "SettingsProblem",
    "Where",
    "agent_names_check",
    "check_default_agent",
    "load_settings",
    "redacted",
    "set_setting",
    "settings_files",
    "settings_schema",
    "unset_setting",
    "value_among",
]
