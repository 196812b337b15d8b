"""The teams that `ekiden init` writes."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from ekiden.project.project import Project, load_project
from ekiden.project.scaffold import TEMPLATES, scaffold
from ekiden.routing import Strategy


@cache
def project(template: str) -> Project:
    """The team of a template."""
    with TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        scaffold(root, template)
        return load_project(root, home=Path(folder) / "home")


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_has_no_problem(template: str) -> None:
    made = project(template)
    assert made.problems == []
    assert made.settings.model == "demo:offline"
    assert not made.is_demo


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_template_uses_the_main_features_of_agent_files(template: str) -> None:
    definitions = project(template).definitions
    assert 3 <= len(definitions) <= 5
    ways = {(each.name, edge.to): edge for each in definitions for edge in each.handoffs[::-1]}
    both = [way for way in ways if way[::-1] in ways]
    assert both, "two hand to each other"
    assert all(ways[way].allow_return for way in both)
    for each in definitions:
        assert each.title
        assert each.description
        assert each.capabilities
        assert each.triggers.patterns
        assert 5 <= len(each.triggers.examples) <= 8
        assert any(not word.isascii() for word in each.triggers.keywords)
        assert any(word.isascii() for word in each.triggers.keywords)


@pytest.mark.parametrize(
    ("template", "asked", "agent"),
    [
        ("support", "Where is my order 1042?", "orders"),
        ("support", "我的订单1043在哪里？", "orders"),
        ("support", "注文した荷物はいつ届きますか", "orders"),
        ("support", "What are your opening hours?", "reception"),
        ("support", "您好，几点开门？", "reception"),
        ("support", "You charged me twice, I want a refund", "billing"),
        ("support", "我要退款", "billing"),
        ("support", "返金してもらえますか", "billing"),
        ("support", "It shows error E17 and will not start", "technical"),
        ("support", "我的音箱开不了机", "technical"),
        ("coding", "Why does the build crash with a TypeError in app.py:42?", "debugger"),
        ("coding", "为什么程序一启动就报错？", "debugger"),
        ("coding", "実行するとエラーになります", "debugger"),
        ("coding", "Write a function that parses dates", "coder"),
        ("coding", "写一个解析日期的函数", "coder"),
        ("coding", "帮我审查一下这段代码", "reviewer"),
        ("coding", "このコードをレビューしてください", "reviewer"),
        ("coding", "How should we structure the new service? Make a plan", "planner"),
        ("research", "Find papers on heat pumps", "scout"),
        ("research", "帮我查找关于固态电池的论文", "scout"),
        ("research", "写一份总结报告", "writer"),
        ("research", "この記事を要約してください", "writer"),
        ("research", "Compare the two studies and what the data show", "analyst"),
        ("research", "Is it true that goldfish forget everything?", "checker"),
        ("research", "这个说法是真的吗？", "checker"),
    ],
)
async def test_rules_find_the_agent_of_a_request(template: str, asked: str, agent: str) -> None:
    decision = await project(template).router.route(asked)
    assert (decision.agent, decision.method) == (agent, "rule")


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("asked", ["Explain quantum chromodynamics", "今晚吃什么", "🍜"])
@pytest.mark.parametrize("strategy", ["rule", "llm"])
async def test_an_unrelated_request_is_routed_to_no_agent(
    template: str, asked: str, strategy: Strategy
) -> None:
    decision = await project(template).router.route(asked, strategy=strategy)
    assert decision.agent is None
    assert decision.reason
