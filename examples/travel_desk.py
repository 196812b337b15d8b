"""One request, several specialists: a supervisor over weather, finance, travel and general.

    python examples/travel_desk.py "Is it warm in Kyoto, and what are 100 euros in yen?"
    python examples/travel_desk.py "东京天气怎么样，100美元是多少日元？"
    python examples/travel_desk.py "京都の天気を教えて。それから大阪のホテルを探して"

It needs no key and no network: the agents are code that finds its tool by simple parsing, and the
tools look into small made-up tables. With a model, the same tools are given to agents that think:

    python examples/travel_desk.py --model openai:gpt-5-mini "…"

    ekiden plan --team travel_desk:team "…"     # only shows the tasks; from within this folder
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import operator
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, timedelta
from typing import Any, NamedTuple

from ekiden import Agent, CodeContext, Supervisor, Team, Triggers, UserError, function_tool

CITIES = {
    "Tokyo": ("tokyo", "东京", "東京"),
    "Kyoto": ("kyoto", "京都"),
    "Osaka": ("osaka", "大阪"),
    "Beijing": ("beijing", "北京"),
    "Shanghai": ("shanghai", "上海"),
    "Paris": ("paris", "巴黎", "パリ"),
    "London": ("london", "伦敦", "ロンドン"),
}
WEATHER = {
    "Tokyo": [("sunny", 14, 22), ("cloudy", 13, 19), ("rain", 11, 16)],
    "Kyoto": [("cloudy", 12, 21), ("sunny", 10, 23), ("sunny", 11, 24)],
    "Osaka": [("rain", 13, 18), ("cloudy", 13, 20), ("sunny", 12, 22)],
    "Beijing": [("sunny", 5, 17), ("sunny", 6, 18), ("windy", 4, 13)],
    "Shanghai": [("cloudy", 12, 18), ("rain", 12, 16), ("cloudy", 11, 17)],
    "Paris": [("rain", 8, 13), ("cloudy", 7, 14), ("sunny", 6, 15)],
    "London": [("cloudy", 7, 12), ("rain", 8, 12), ("rain", 7, 11)],
}
"""By city: three days that come again and again."""
CURRENCIES = {
    "USD": ("usd", "us dollars", "dollars", "dollar", "$", "美元", "美金", "米ドル", "ドル"),
    "EUR": ("eur", "euros", "euro", "€", "欧元", "ユーロ"),
    "JPY": ("jpy", "yen", "日元", "日圆", "円"),
    "CNY": ("cny", "yuan", "rmb", "人民币", "人民元", "元"),
    "GBP": ("gbp", "pounds", "pound", "£", "英镑", "ポンド"),
}
RATES = {"USD": 1.0, "EUR": 0.92, "JPY": 150.0, "CNY": 7.2, "GBP": 0.8}
"""What a dollar is worth."""
QUOTES = {"KAZE": 1830.5, "HASHI": 92.25, "TSURU": 415.0}
TRAINS = {
    ("Tokyo", "Kyoto"): ["08:03 - 10:15", "12:33 - 14:45", "18:03 - 20:17"],
    ("Kyoto", "Tokyo"): ["09:01 - 11:12", "13:31 - 15:42", "19:01 - 21:15"],
    ("Kyoto", "Osaka"): ["every 15 minutes, half an hour"],
    ("Osaka", "Kyoto"): ["every 15 minutes, half an hour"],
    ("Tokyo", "Osaka"): ["07:30 - 09:57", "11:30 - 13:57", "17:30 - 19:57"],
    ("Beijing", "Shanghai"): ["08:00 - 12:28", "14:00 - 18:32"],
    ("Paris", "London"): ["09:13 - 10:30", "15:13 - 16:30"],
}
HOTELS = {
    "Tokyo": ["Sumida House, 14,000 yen", "Hotel Kanda, 9,800 yen"],
    "Kyoto": ["Kamo Inn, 12,500 yen", "Ryokan Sakura, 31,000 yen"],
    "Osaka": ["Dotonbori Stay, 8,900 yen"],
    "Beijing": ["Hutong Garden, 620 yuan"],
    "Shanghai": ["Riverside Hotel, 780 yuan"],
    "Paris": ["Hôtel du Pont, 140 euros"],
}


@function_tool
def weather_of(city: str, day: str = "today") -> dict[str, Any]:
    """The weather of a city: `day` is today, tomorrow, or a date such as 2030-05-01."""
    if city not in WEATHER:
        raise UserError(f"there is no weather for {city}; known: {', '.join(WEATHER)}")
    days = WEATHER[city]
    places = {"today": 0, "tomorrow": 1}
    place = places[day] if day in places else date.fromisoformat(day).toordinal()
    sky, low, high = days[place % len(days)]
    return {"city": city, "day": day, "sky": sky, "low": low, "high": high}


@function_tool
def exchange(amount: float, source: str, target: str) -> float:
    """An amount in another currency: USD, EUR, JPY, CNY or GBP."""
    for each in (source, target):
        if each not in RATES:
            raise UserError(f"there is no rate for {each}; known: {', '.join(RATES)}")
    return round(amount / RATES[source] * RATES[target], 2)


@function_tool
def quote_of(symbol: str) -> float:
    """The last price of a share, by its symbol."""
    if symbol not in QUOTES:
        raise UserError(f"there is no quote for {symbol}; known: {', '.join(QUOTES)}")
    return QUOTES[symbol]


@function_tool
def trains_between(start: str, end: str) -> list[str]:
    """Trains from a city to another."""
    if (start, end) not in TRAINS:
        raise UserError(f"there is no train from {start} to {end} in the timetable")
    return TRAINS[start, end]


@function_tool
def hotels_in(city: str) -> list[str]:
    """Hotels of a city, with what a night costs."""
    if city not in HOTELS:
        raise UserError(f"there is no hotel in {city} in the list")
    return HOTELS[city]


@function_tool
def calculate(expression: str) -> float:
    """What an expression of numbers, + - * / and brackets comes to."""
    if len(expression) > 200:
        raise UserError("the expression is longer than 200 characters")
    return round(_value(ast.parse(expression, mode="eval").body), 6)


@function_tool
def days_between(start: str, end: str) -> int:
    """How many days there are from a date to another, such as 2030-05-01."""
    return (date.fromisoformat(end) - date.fromisoformat(start)).days


_OPERATORS: Mapping[type, Callable[..., float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.USub: operator.neg,
}


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(operand))
    raise UserError("only numbers, + - * / and brackets can be calculated")


class Said(NamedTuple):
    """A sentence in the languages that the desk speaks."""

    en: str
    zh: str
    ja: str

    def to(self, text: str, **values: Any) -> str:
        """Filled in, in the language of `text`."""
        if re.search("[\u3040-\u30ff]", text):
            return self.ja.format(**values)
        return (self.zh if re.search("[\u4e00-\u9fff]", text) else self.en).format(**values)


SKIES = {
    "sunny": Said("sunny", "晴", "晴れ"),
    "cloudy": Said("cloudy", "多云", "くもり"),
    "rain": Said("rain", "有雨", "雨"),
    "windy": Said("windy", "有风", "強風"),
}
DAYS = {
    "today": Said("today", "今天", "今日"),
    "tomorrow": Said("tomorrow", "明天", "明日"),
}
WEATHER_SAID = Said(
    "{city}, {day}: {sky}, {low} to {high} °C.",
    "{city}（{day}）：{sky}，{low}到{high}度。",
    "{city}（{day}）は{sky}、{low}〜{high}度です。",
)
EXCHANGE_SAID = Said(
    "{amount:,.2f} {source} are {value:,.2f} {target}.",
    "{amount:,.2f} {source} = {value:,.2f} {target}。",
    "{amount:,.2f} {source} は {value:,.2f} {target} です。",
)
TRAINS_SAID = Said(
    "Trains from {start} to {end}: {found}.",
    "从{start}到{end}的列车：{found}。",
    "{start}から{end}への列車：{found}。",
)
HOTELS_SAID = Said(
    "Hotels in {city}: {found}.", "{city}的酒店：{found}。", "{city}のホテル：{found}。"
)
GENERAL_SAID = Said(
    "I can calculate (12 * 7) and count days between dates; I know nothing about the rest.",
    "我会计算（12 * 7）和数两个日期之间的天数，其他的我不知道。",
    "計算（12 * 7）と日数の計算ができます。ほかのことはわかりません。",
)


async def tell_weather(ctx: CodeContext) -> str:
    """Weather: every city that the task names."""
    day = _day(ctx.text)
    said = []
    for city, name in _cities(ctx.text):
        found = await ctx.call("weather_of", city=city, day=day)
        facts = {
            "city": name,
            "day": DAYS[day].to(ctx.text) if day in DAYS else day,
            "sky": SKIES[found["sky"]].to(ctx.text),
            "low": found["low"],
            "high": found["high"],
        }
        said.append(WEATHER_SAID.to(ctx.text, **facts))
    return " ".join(said)


async def tell_money(ctx: CodeContext) -> str:
    """Finance: a share that is named, else an amount from one currency to another."""
    symbols = [symbol for symbol in QUOTES if re.search(rf"\b{symbol}\b", ctx.text, re.I)]
    if symbols:
        return "; ".join([f"{each}: {await ctx.call('quote_of', symbol=each)}" for each in symbols])
    amount, source, target = _exchange(ctx.text)
    value = await ctx.call("exchange", amount=amount, source=source, target=target)
    return EXCHANGE_SAID.to(ctx.text, amount=amount, source=source, target=target, value=value)


async def tell_travel(ctx: CodeContext) -> str:
    """Travel: trains where two cities or a train are named, else hotels."""
    task, cities = ctx.text.partition("\n\n")[0], _cities(ctx.text)
    if re.search(r"hotel|stay|room|酒店|宾馆|住|ホテル|宿", task, re.I) or len(cities) < 2:
        (city, name), *_ = cities
        found = ", ".join(await ctx.call("hotels_in", city=city))
        return HOTELS_SAID.to(ctx.text, city=name, found=found)
    (start, from_name), (end, to_name), *_ = cities
    found = ", ".join(await ctx.call("trains_between", start=start, end=end))
    return TRAINS_SAID.to(ctx.text, start=from_name, end=to_name, found=found)


async def tell_anything(ctx: CodeContext) -> str:
    """General: what can be calculated."""
    dates = re.findall(r"\d{4}-\d\d-\d\d", ctx.text)
    if len(dates) >= 2:
        return str(await ctx.call("days_between", start=dates[0], end=dates[1]))
    found = re.search(r"[\d(][\d\s.()]*(?:[-+*/×÷][\d\s.()]+)+", ctx.text)
    if found is None:
        return GENERAL_SAID.to(ctx.text)
    expression = found.group().replace("×", "*").replace("÷", "/").strip()
    return f"{expression} = {await ctx.call('calculate', expression=expression):g}"


def _cities(text: str) -> list[tuple[str, str]]:
    """The cities in the text, in its order, each with the name that the text has for it."""
    found: dict[str, tuple[int, str]] = {}
    for city, names in CITIES.items():
        for name in names:
            place = re.search(re.escape(name), text, re.I)
            if place is not None and (city not in found or place.start() < found[city][0]):
                found[city] = (place.start(), place.group())
    if not found:
        raise UserError(f"say which city: {', '.join(CITIES)}")
    ordered = sorted(found.items(), key=lambda each: each[1][0])
    return [(city, city if name.isascii() else name) for city, (_, name) in ordered]


def _day(text: str) -> str:
    written = re.search(r"\d{4}-\d\d-\d\d", text)
    if written is not None:
        return written.group()
    if re.search(r"day after tomorrow|后天|後天|明後日|あさって", text, re.I):
        return (date.today() + timedelta(days=2)).isoformat()
    return "tomorrow" if re.search(r"tomorrow|明天|明日|あした", text, re.I) else "today"


def _exchange(text: str) -> tuple[float, str, str]:
    """How much of what, and into what: the first amount, and the currencies in their order."""
    names = {name: code for code, each in CURRENCIES.items() for name in each}
    longest_first = sorted(names, key=len, reverse=True)
    pattern = "|".join(
        rf"(?<![a-z]){re.escape(name)}(?![a-z])" if name.isalpha() and name.isascii()
        else re.escape(name)
        for name in longest_first
    )  # fmt: skip
    found = [names[each.lower()] for each in re.findall(pattern, text, re.I)]
    codes = list(dict.fromkeys(found))
    number = re.search(r"\d[\d,]*(?:\.\d+)?", text)
    if not codes:
        raise UserError(f"say which currencies: {', '.join(RATES)}")
    target = codes[1] if len(codes) > 1 else "USD" if codes[0] == "JPY" else "JPY"
    return float(number.group().replace(",", "")) if number else 1.0, codes[0], target


def make_desk(model: str | None = None) -> Supervisor[Any]:
    """The supervisor with its four agents; without a model all of them are code."""

    def agent(
        name: str, code: Callable[[Any], Awaitable[Any]], tools: list[Any], **about: Any
    ) -> Agent[Any]:
        if model is None:
            return Agent(name, run=code, tools=tools, **about)
        told = f"{about['description']} Answer with what your tools say, in the language asked."
        return Agent(name, model=model, instructions=told, tools=tools, **about)

    weather = agent(
        "weather", tell_weather, [weather_of], title="Weather",
        description="Tells the weather of a city on a day.",
        triggers=Triggers(
            keywords=("weather", "forecast", "rain", "sunny", "warm", "cold", "temperature",
                      "umbrella", "天气", "下雨", "气温", "天気", "気温", "傘"),
        ),
    )  # fmt: skip
    finance = agent(
        "finance", tell_money, [exchange, quote_of], title="Finance",
        description="Converts currencies and knows the prices of shares.",
        triggers=Triggers(
            keywords=("exchange rate", "share price", "stock", *QUOTES,
                      *(name for names in CURRENCIES.values() for name in names if name != "元"),
                      "汇率", "股价", "両替", "為替", "株価"),
            patterns=(r"[$€£]\s*\d", r"\d\s*元"),
        ),
    )  # fmt: skip
    travel = agent(
        "travel", tell_travel, [trains_between, hotels_in], title="Travel",
        description="Finds trains between cities, and hotels.",
        triggers=Triggers(
            keywords=("hotel", "hotels", "train", "trains", "timetable", "stay", "酒店", "宾馆",
                      "火车", "列车", "高铁", "ホテル", "宿", "電車", "新幹線", "列車"),
        ),
    )  # fmt: skip
    general = agent(
        "general", tell_anything, [calculate, days_between], title="General",
        description="Calculates, counts days, and takes what is nobody else's.",
        triggers=Triggers(
            keywords=("calculate", "days between", "计算", "計算"),
            patterns=(r"\d\s*[+*×÷/]\s*\d", r"\d\s+-\s+\d"),
        ),
    )  # fmt: skip
    return Supervisor(
        "desk",
        agents=[weather, finance, travel, general],
        fallback="general",
        model=model,
        timeout_s=60,
        retries=1,
        backoff_s=0.05,
        title="Travel desk",
    )


desk = make_desk()
assert desk.plan is not None
team = Team(desk, *desk.plan.members, name="travel-desk")


async def main(text: str, model: str | None) -> int:
    """Print the answer, and on standard error who did what; 1 if there is no answer."""
    state = await make_desk(model).run(text)
    for result in state.results:
        how = "done" if result.success else "failed"
        print(f"{result.agent}: {how} in {result.execution_time * 1000:.0f} ms", file=sys.stderr)
    if state.final_response is None:
        print(f"no answer: {state.error}", file=sys.stderr)
        return 1
    print(state.final_response)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("request", help="what the desk is asked")
    parser.add_argument("--model", help="provider:model; without it the agents are code")
    options = parser.parse_args()
    sys.exit(asyncio.run(main(options.request, options.model)))
