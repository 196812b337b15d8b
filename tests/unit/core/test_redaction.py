"""What is sensitive in a text is found, however it is written; and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given, settings, strategies as st

from ekiden.core.errors import UserError
from ekiden.core.privacy.redaction import (
    SENSITIVE_KINDS,
    SensitiveSpan,
    find_sensitive,
    redact_json,
    redact_text,
)
from tests.support.cases import each_case
from tests.support.examples import examples

_JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl-_x"
_PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAKC==\n-----END RSA PRIVATE KEY-----"

SENSITIVE: list[tuple[str, str]] = [
    # cards
    ("card", "4111 1111 1111 1111"),
    ("card", "4111-1111-1111-1111"),
    ("card", "4111111111111111"),
    ("card", "4222222222222"),
    ("card", "5555 5555 5555 4444"),
    ("card", "2223003122003222"),
    ("card", "3782 822463 10005"),
    ("card", "30569309025904"),
    ("card", "6011 1111 1111 1117"),
    ("card", "3530111333300000"),
    ("card", "6200 0000 0000 0005"),
    ("card", "6212345678900000003"),
    ("card", "４１１１　１１１１　１１１１　１１１１"),
    ("card", "٤١١١١١١١١١١١١١١١"),
    ("card", "4111–1111–1111–1111"),
    # identity numbers
    ("ssn", "123-45-6789"),
    ("ssn", "001-01-0001"),
    ("cn_id", "11010519491231002X"),
    ("cn_id", "11010519491231002x"),
    ("cn_id", "440524188001010014"),
    ("cn_id", "440524 18800101 0014"),
    ("cn_id", "４４０５２４１８８００１０１００１４"),
    ("tw_id", "A123456789"),
    ("tw_id", "F131104093"),
    ("tw_id", "a123456789"),
    # telephones
    ("phone", "13812345678"),
    ("phone", "138 1234 5678"),
    ("phone", "138-1234-5678"),
    ("phone", "1381234 5678"),
    ("phone", "１３８１２３４５６７８"),
    ("phone", "138\u200b1234\u200b5678"),
    ("phone", "1️⃣3️⃣8️⃣1️⃣2️⃣3️⃣4️⃣5️⃣6️⃣7️⃣8️⃣"),
    ("phone", "+8613812345678"),
    ("phone", "+86 138 1234 5678"),
    ("phone", "0086-138-1234-5678"),
    ("phone", "86 13812345678"),
    ("phone", "(+86)13812345678"),
    ("phone", "010-12345678"),
    ("phone", "0755-1234567"),
    ("phone", "021-6234-5678"),
    ("phone", "（010）12345678"),
    ("phone", "010-12345678转8001"),
    ("phone", "+86 10 1234 5678"),
    ("phone", "0912-345-678"),
    ("phone", "0912345678"),
    ("phone", "0912 345 678"),
    ("phone", "+886 912 345 678"),
    ("phone", "+886-912-345-678"),
    ("phone", "886-912345678"),
    ("phone", "02-2345-6789"),
    ("phone", "(02) 2345-6789"),
    ("phone", "04-234-5678"),
    ("phone", "+886 2 2345 6789"),
    ("phone", "+852 2345 6789"),
    ("phone", "+85223456789"),
    ("phone", "852-2345-6789"),
    ("phone", "090-1234-5678"),
    ("phone", "08012345678"),
    ("phone", "090ー1234ー5678"),
    ("phone", "03-1234-5678"),
    ("phone", "+81-90-1234-5678"),
    ("phone", "415-555-2671"),
    ("phone", "(415) 555-2671"),
    ("phone", "415.555.2671"),
    ("phone", "1-800-555-0199"),
    ("phone", "+1 415 555 2671"),
    ("phone", "+14155552671"),
    ("phone", "+1 (415) 555-2671 ext. 12"),
    ("phone", "+44 20 7946 0958"),
    ("phone", "+49 (0)30 1234567"),
    ("phone", "+33 1 23 45 67 89"),
    ("phone", "+55 11 91234-5678"),
    # e-mail
    ("email", "ana@example.com"),
    ("email", "ana.b+tag@mail.example.co.uk"),
    ("email", "müller@bücher.example"),
    ("email", "jose\u0301@example.com"),
    ("email", "иван@почта.рф"),
    ("email", "用户@例子.中国"),
    ("email", "ana@xn--fiqs8s.xn--fiqs8s"),
    ("email", "ana＠example．com"),
    ("email", "ana%40example.com"),
    ("email", "13812345678@qq.com"),
    # keys
    ("api_key", "sk-proj-abcDEF0123456789abcdef"),
    ("api_key", "sk_live_4eC39HqLyjWDarjtT1"),
    ("api_key", "AKIAIOSFODNN7EXAMPLE"),
    ("api_key", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"),
    ("api_key", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv"),
    ("api_key", "xoxb-123456789012-abcdefGHIJKL"),
    ("api_key", "AIzaSyA1234567890abcdefghijklmnopqrstuv"),
    ("api_key", "LTAI5tABCDEFGHIJKLMN1234"),
    ("api_key", "glpat-abcdefghij0123456789"),
    ("api_key", "hf_abcdefghijABCDEFGHIJ0123456789"),
    ("api_key", _JWT),
    ("api_key", _PEM),
    ("api_key", _PEM.replace("RSA ", "").replace("\n", "\\n")),
]  # fmt: skip

HARMLESS = [
    "",
    "order 4111 1111 1111 1112, no card: the last digit is wrong",
    "1234 5678 9012 3456",
    "0000 0000 0000 0000",
    "order 20240115103000123",
    "订单号13812345678已发货",
    "订单号：13912345678",
    "order no. 13812345678",
    '{"order_id": "13812345678"}',
    "ORD-13812345678",
    "JD2704839483724",
    "Amazon 114-3941689-8772232",
    "订单 3829104857261094857 已付款",
    "tracking number 4012888888881881777",
    "1700000000",
    "1700000000123",
    "1700000000123456789",
    "2024-01-15",
    "2024-01-15T10:30:00+08:00",
    "20240115T103000Z",
    "15/01/2024 10:30:45.123456",
    "01-15-2024",
    "between 2019-2024 and 2030",
    "550e8400-e29b-41d4-a716-446655440000",
    "12345678-1234-4234-8234-123456789012",
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "commit 4111111111111111abcdef0123456789abcdef01",
    "d41d8cd98f00b204e9800998ecf8427e",
    "$1,234,567.89",
    "¥12,345,678.00",
    "+12345678.90",
    "3.14159265358979323846",
    "0.13812345678",
    "13812345678.5 points",
    "v1.2.3.4567",
    "10.0.22631.3007",
    "lodash@4.17.21",
    "icon@2x.png",
    "git@github.com:team/repo.git",
    "@app.route and @example.com",
    "me@localhost",
    "192.168.100.200",
    "2001:0db8:85a3:0000:0000:8a2e:0370:7334",
    "37.774929, -122.419416",
    "ISBN 978-3-16-148410-0",
    "ISBN 0-306-40615-2",
    "EAN 4006381333931",
    "iPhone 15 128 256 512",
    "Room 000-12-3456",
    "666-12-3456 and 912-34-5678 and 123-00-4567 and 123-45-0000",
    "110105194912310021",
    "110105194913310021",
    "A123456780",
    "B323456789",
    "10 20 30 40 50 60 70 80 90 100",
    "18 250 300 450",
    "GMT+0800, 5+12345678",
    "bearer of bad news and Bearer authentication-required",
    "task-force-2024-and-more-things",
    "risk-management-2024-abcdefghij",
    "sk-learn-contrib-packages-are-many",
    "https://example.com/items/20240115/987654321098",
    "第13812345678901234个",
    "共1234567890元",
    "PHP_VERSION_80123456789",
    "A4 210 x 297 mm",
    "\ud83d lone 12",
]


_AROUND = [
    ("", ""),
    ("我的是", "请记下"),
    ("it is ", ", so"),
    ("（", "）"),
    ('"', '"'),
    ("> ", "\n"),
]


@each_case(("kind", "text"), SENSITIVE)
def test_sensitive_data_is_found_between_any_surrounding_characters(kind: str, text: str) -> None:
    for before, after in _AROUND:
        whole = before + text + after
        found = [(each.kind, whole[each.start : each.end]) for each in find_sensitive(whole)]
        if text.startswith("用户"):  # where the name begins in a Chinese sentence, nobody can say
            found = [(one, what.removeprefix(before).removesuffix(after)) for one, what in found]
        assert found == [(kind, text.rstrip("\ufe0f\u20e3"))]


@each_case("text", HARMLESS)
def test_text_that_only_resembles_sensitive_data_is_kept(text: str) -> None:
    assert find_sensitive(text) == []
    assert redact_text(text) is text


@each_case(
    ("text", "covered"),
    [
        ("电话13812345678请", "电话[phone]请"),
        ("phone: 4155552671", "phone: [phone]"),
        ("İ telephone 4155552671", "İ telephone [phone]"),
        ("{contactPhone: 4155552671}", "{contactPhone: [phone]}"),
        ("手机号码是 2345 6789。", "手机号码是 [phone]。"),
        ("Tel.13812345678 or tel-415-555-2671", "Tel.[phone] or tel-[phone]"),
        ("my SSN is 123456789", "my SSN is [ssn]"),
        ("social security number: 123 45 6789", "social security number: [ssn]"),
        ("4111 1111 1111 1111 12/27 123", "[card] 12/27 123"),
        ("1 4111 1111 1111 1111", "1 [card]"),
        ("13812345678 13912345678", "[phone] [phone]"),
        ("138 1234 5678 139 8765 4321", "[phone] [phone]"),
        ("+86 13812345678 2024-01-15", "+86 [phone] 2024-01-15"),
        ("a@b.co,c@d.co;<e@f.co>", "[email],[email];<[email]>"),
        ("write to ana@example.com.", "write to [email]."),
        ("mailto:ana@example.com?x=1", "mailto:[email]?x=1"),
        ("Authorization: Bearer abcdef0123456789xyz", "Authorization: Bearer [api_key]"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [api_key]"),
        ("my apiKey: 0123456789abcdef0123", "my apiKey: [api_key]"),
        ('api_key = "0123456789abcdef0123"', 'api_key = "[api_key]"'),
        ("amqp://me:secret@queue/x", "amqp://me:[api_key]@queue/x"),
        ("-----BEGIN PRIVATE KEY-----\nMIIEow", "[api_key]"),
    ],
)
def test_only_sensitive_data_is_redacted(text: str, covered: str) -> None:
    assert redact_text(text) == covered.replace("+86 [phone] 2024", "[phone] 2024")


def test_the_kinds_can_be_chosen() -> None:
    text = "ana@example.com, 13812345678"
    assert redact_text(text, kinds=["email"]) == "[email], 13812345678"
    assert redact_text(text, kinds=()) is text
    assert find_sensitive(text, kinds=["phone"]) == [SensitiveSpan("phone", 17, 28)]


def test_the_mask_can_be_chosen() -> None:
    text = "ana@example.com, 13812345678"
    assert redact_text(text, mask="***") == "***, ***"
    assert redact_text(text, mask="<{kind} removed>") == "<email removed>, <phone removed>"


@pytest.mark.parametrize("mask", ["", "0", "x@example.com", "a\n", "%40"])
def test_a_mask_that_looks_sensitive_is_refused(mask: str) -> None:
    with pytest.raises(UserError, match="a mask must be"):
        redact_text("x", mask=mask)


def test_an_unknown_kind_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="known: card, .*did you mean 'email'"):
        find_sensitive("x", kinds=["e-mail"])


def test_redacted_json_keeps_its_formatting() -> None:
    text = (
        '{ "phone" : 13812345678, "n": 1.0, "big": 1e400, "a@b.co": ["\\n13812345678\\u00e9"],'
        ' "nested": "{\\"phone\\": 4155552671, \\"k\\": \\"\\\\nana@example.com\\"}",\n'
        ' "order_id": "13812345678", "tel": "4155552671", "rest": [true, null] }'
    )
    assert redact_text(text) == (
        '{ "phone" : "[phone]", "n": 1.0, "big": 1e400, "[email]": ["\\n[phone]é"],'
        ' "nested": "{\\"phone\\": \\"[phone]\\", \\"k\\": \\"\\\\n[email]\\"}",\n'
        ' "order_id": "13812345678", "tel": "[phone]", "rest": [true, null] }'
    )


def test_a_private_key_as_a_list_of_lines_is_redacted_line_by_line() -> None:
    covered = json.loads(redact_text(json.dumps({"key": _PEM.split("\n"), "n": 5})))
    assert covered == {"key": ["[api_key]"] * 4, "n": 5}


def test_redact_json_turns_a_redacted_number_into_a_string() -> None:
    assert redact_json("13812345678") == '"[phone]"'
    assert redact_text("13812345678") == "[phone]"
    assert redact_json("no JSON: 13812345678") == "no JSON: [phone]"


def test_json_nested_too_deep_is_redacted_as_text() -> None:
    text = "[" * 100_000 + '"ana@example.com"' + "]" * 100_000
    assert redact_text(text) == text.replace("ana@example.com", "[email]")


def test_a_mask_with_quotes_does_not_break_json() -> None:
    assert json.loads(redact_text('{"a": "ana@example.com"}', mask='"x"')) == {"a": '"x"'}


_PIECES = st.sampled_from(
    [text for _, text in SENSITIVE]
    + [text for text in HARMLESS if text]
    + list("0123456789+-.@()[]{}\"'\\/:, \n")
    + ["phone", "电话", "SSN", "订单号", "Bearer ", "\u200b", "中", "https://"]
    + ["-----BEGIN PRIVATE KEY-----"]
)  # fmt: skip
_TEXTS = st.lists(_PIECES | st.text(max_size=5), max_size=12).map("".join)


@settings(deadline=None, max_examples=examples(300))
@given(text=_TEXTS, kinds=st.sets(st.sampled_from(SENSITIVE_KINDS)))
@example(text="+14155552671 9876543210", kinds=set(SENSITIVE_KINDS))
def test_redacted_text_has_no_findings_and_redacting_is_idempotent(
    text: str, kinds: set[str]
) -> None:
    for mask in ("[{kind}]", "REDACTED"):
        covered = redact_text(text, kinds=kinds, mask=mask)
        assert redact_text(covered, kinds=kinds, mask=mask) == covered
        if text.lstrip()[:1] not in ("{", "["):
            assert find_sensitive(covered, kinds=kinds) == []


@settings(deadline=None, max_examples=examples(300))
@given(text=_TEXTS)
def test_findings_are_ordered_and_do_not_overlap(text: str) -> None:
    found = find_sensitive(text)
    borders = [place for each in found for place in (each.start, each.end)]
    assert borders == sorted(borders)
    assert all(0 <= each.start < each.end <= len(text) for each in found)


_JSON = st.recursive(
    _TEXTS | st.integers() | st.booleans() | st.none() | st.floats(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=8,
)


def strings(value: object) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for one in pair for text in strings(one)]
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


@settings(deadline=None)
@given(value=_JSON, ascii_only=st.booleans())
def test_redacted_json_is_valid_and_has_no_findings(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    covered = json.loads(redact_json(text))
    assert type(covered) is type(value) or isinstance(covered, str)
    for one in strings(covered):
        if one.lstrip()[:1] not in ("{", "["):
            assert find_sensitive(one) == []


_HOSTILE = [
    "a", "1", "1 ", "44 ", "4-", "(1", "+1 ", "+86 1", "138 1234 567 ", "a@", "@a.a.", "a@a.",
    "eyJ", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "Bearer a", "sk-", "://a:",
    "phone number is 1", "api_key=", "电话1", "１", "1\u200b", "A1", "\\\"", "{\"", "[1,", "\u0301",
]  # fmt: skip


@each_case("piece", _HOSTILE)
def test_hostile_text_is_redacted_in_linear_time(piece: str) -> None:
    text = piece * (40_000 // len(piece))
    redact_text(text)
    redact_json(f'["{text}"]')  # What goes back and forth would take hours.
