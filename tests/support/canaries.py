"""Planted secrets: each has the shape of a real one, is made anew for each test, and opens nothing.

`NOWHERE` are secrets of programs: what stands in the environment, in settings, in headers, and what
the words of failures repeat. `SAID` are secrets that somebody told an agent, or that a tool was
given or gave: they are part of the conversation, which is stored as it was said.
"""

from __future__ import annotations

import base64
import json
import secrets
import string

_ALNUM = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits


def _random(count: int, letters: str = _ALNUM) -> str:
    """Random text with a digit and a letter in it."""
    return "7" + "".join(secrets.choice(letters) for _ in range(count - 2)) + "Q"


def openai() -> str:
    return f"sk-proj-{_random(48)}"


def anthropic() -> str:
    return f"sk-ant-api03-{_random(60)}"


def google() -> str:
    return f"AIza{_random(35)}"


def aws_id() -> str:
    return f"AKIA{_random(16, _UPPER)}"


def github() -> str:
    return f"ghp_{_random(36)}"


def github_fine() -> str:
    return f"github_pat_{_random(60)}"


def gitlab() -> str:
    return f"glpat-{_random(24)}"


def slack() -> str:
    return f"xoxb-{_random(12, string.digits)[:-1]}1-{_random(24)}"


def stripe() -> str:
    return f"sk_live_{_random(28)}"


def hugging_face() -> str:
    return f"hf_{_random(34)}"


def npm() -> str:
    return f"npm_{_random(36)}"


def ours() -> str:
    prefix = "".join(secrets.choice(_LOWER) for _ in range(8))
    return f"ek_{prefix}_{_random(43)}"


def plain() -> str:
    """Without any shape: only its place says that it is a secret."""
    return _random(40)


def password() -> str:
    return f"hunter-{_random(14)}"


def jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": _random(8), "n": 1})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts]
    return f"{encoded[0].decode()}.{encoded[1].decode()}.{_random(43)}"


def pem_line() -> str:
    """One line of the body of a private key; see `pem`."""
    return f"MIIEvQ{_random(58)}"


def pem(line: str) -> str:
    return f"-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----"


NOWHERE = {
    # The environment of the server.
    "env_openai": openai,
    "env_anthropic": anthropic,
    "env_google": google,
    "env_aws_id": aws_id,
    "env_aws_secret": plain,
    "env_github": github,
    "env_slack": slack,
    "env_stripe": stripe,
    "env_npm": npm,
    "env_database": password,
    "env_otlp_header": plain,
    "env_partner_token": plain,
    "env_client_key": ours,
    # Settings.
    "mcp_env": plain,
    "mcp_header": plain,
    "mcp_argument": github_fine,
    "mcp_address_password": password,
    "mcp_address_token": plain,
    "store_password": password,
    # What a request carries.
    "good_key": ours,
    "bad_key": ours,
    "bad_x_api_key": ours,
    "bad_socket_key": ours,
    "bearer_jwt": jwt,
    "basic": plain,
    "cookie": plain,
    "query_token": plain,
    "socket_query_token": plain,
    "proxy_authorization": plain,
    "other_header": plain,
    "body_password": password,
    "agui_forwarded": github,
    "a2a_metadata": openai,
    "a2a_push_token": plain,
    "mcp_meta": slack,
    # What failures say.
    "tool_error": aws_id,
    "tool_error_address": password,
    "tool_error_cause": openai,
    "tool_error_unguarded": jwt,
    "handoff_error": github,
    "guardrail_error": gitlab,
    "guardrail_info": openai,
    "guardrail_message": hugging_face,
    "provider_echo": openai,
    "log_line": stripe,
    "log_field": github,
    "tool_env_echo": plain,
}
"""Found in no log, trace, event, page or database."""

SAID = {
    "said": openai,
    "tool_argument": github,
    "tool_argument_nested": password,
    "tool_result": anthropic,
    "tool_result_pem": pem_line,
    "approval_argument": slack,
    "handoff_reason": google,
    "remembered": hugging_face,
    "variable": stripe,
    "published": npm,
    "answer_note": gitlab,
}
"""Part of a conversation: in the database, and shown to its readers."""


def plant() -> dict[str, str]:
    """A value for each."""
    return {name: make() for name, make in (NOWHERE | SAID).items()}
