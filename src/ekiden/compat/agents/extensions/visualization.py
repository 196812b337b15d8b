"""A picture of agents, their tools and handoffs, in Graphviz's language."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_AGENT = "shape=box, style=filled, fillcolor=lightyellow, width=1.5, height=0.8"
_ROUND = "shape=box, style=filled, style=rounded, fillcolor=lightyellow, width=1.5, height=0.8"
_TOOL = "shape=ellipse, style=filled, fillcolor=lightgreen, width=0.5, height=0.3"
_SERVER = "shape=box, style=filled, fillcolor=lightgrey, width=1, height=0.5"
_END = "shape=ellipse, style=filled, fillcolor=lightblue, width=0.5, height=0.3"


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _targets(agent: Any) -> Iterator[tuple[str, Any]]:
    """Handoffs: the name of the target, and the agent if it is known."""
    for each in agent.handoffs:
        if hasattr(each, "agent_name"):
            yield each.agent_name, getattr(each, "_agent_ref", lambda: None)() or None
        else:
            yield each.name, each


def get_all_nodes(agent: Any, parent: Any = None, visited: set[str] | None = None) -> str:
    """The nodes of an agent and of all that it can reach."""
    seen = set() if visited is None else visited
    if agent.name in seen:
        return ""
    seen.add(agent.name)
    parts = []
    if parent is None:
        ends = ("__start__", "__end__")
        parts += [f'"{end}" [label="{end}", {_END}];' for end in ends]
        name = _quoted(agent.name)
        parts.append(f"{name} [label={name}, {_AGENT}];")
    for others, look in ((agent.tools, _TOOL), (agent.mcp_servers, _SERVER)):
        parts += [f"{_quoted(each.name)} [label={_quoted(each.name)}, {look}];" for each in others]
    for name, target in _targets(agent):
        parts.append(f"{_quoted(name)} [label={_quoted(name)}, {_ROUND}];")
        if target is not None:
            parts.append(get_all_nodes(target, agent, seen))
    return "".join(parts)


def get_all_edges(agent: Any, parent: Any = None, visited: set[str] | None = None) -> str:
    """The edges of an agent and of all that it can reach."""
    seen = set() if visited is None else visited
    if agent.name in seen:
        return ""
    seen.add(agent.name)
    name = _quoted(agent.name)
    parts = []
    if parent is None:
        parts.append(f'"__start__" -> {name};')
    for other in [*agent.tools, *agent.mcp_servers]:
        style = "[style=dotted, penwidth=1.5]" if other in agent.tools else "[style=dashed]"
        parts.append(f"{name} -> {_quoted(other.name)} {style};")
        parts.append(f"{_quoted(other.name)} -> {name} {style};")
    targets = list(_targets(agent))
    for target_name, target in targets:
        parts.append(f"{name} -> {_quoted(target_name)};")
        if target is not None:
            parts.append(get_all_edges(target, agent, seen))
    if not targets:
        parts.append(f'{name} -> "__end__";')
    return "".join(parts)


def get_main_graph(agent: Any) -> str:
    """The whole graph."""
    look = 'graph [splines=true];node [fontname="Arial"];edge [penwidth=1.5];'
    return f"digraph G {{{look}{get_all_nodes(agent)}{get_all_edges(agent)}}}"


def draw_graph(agent: Any, filename: str | None = None) -> Any:
    """The graph for a notebook, or as a PNG file; it needs the `graphviz` package."""
    import graphviz

    graph = graphviz.Source(get_main_graph(agent))
    if filename:
        graph.render(filename, format="png", cleanup=True)
    return graph
