"""The families whose calls are tags, in what each has of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sglrouter.families.formats.program import Tools
from sglrouter.families.registry import TOOL_FORMATS
from tests.families.laws import check_truncated, parsed, reading_of, reads
from tests.families.reading import read, read_every_way

QWEN = TOOL_FORMATS["qwen3_coder"]
MIMO = TOOL_FORMATS["mimo"]
MINIMAX = TOOL_FORMATS["minimax-m2"]
STEP3 = TOOL_FORMATS["step3"]
DOTS = TOOL_FORMATS["dots"]
MINICPM = TOOL_FORMATS["minicpm5"]


def tools_of(**properties: Any) -> Tools:
    """One function f with these parameters."""
    return Tools([{"function": {"name": "f", "parameters": {"properties": properties}}}])


ANY = tools_of(s={"type": "string"}, n={"type": "integer"}, m={"type": ["string", "null"]})


def test_those_who_write_like_qwen_coder() -> None:
    assert TOOL_FORMATS["qwen_xml"] is TOOL_FORMATS["step3p5"] is QWEN


def qwen(parameters: str) -> str:
    return f"<tool_call>\n<function=f>\n{parameters}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("parameters", "arguments"),
    [
        # One newline on each side is the template's.
        ("<parameter=s>\n\n  x\n\n\n</parameter>\n", {"s": "\n  x\n\n"}),
        ("<parameter=s>x</parameter>", {"s": "x"}),
        ("<parameter=s>\n</parameter>\n", {"s": ""}),
        ("<parameter=s></parameter>\n", {"s": ""}),
        # The end of a parameter is forgotten.
        ("<parameter=s>\nBergen\n<parameter=n>\n5003\n</parameter>\n", {"s": "Bergen", "n": 5003}),
        ("<parameter=n>\n7\n<parameter=s>\nx\n", {"n": 7, "s": "x"}),
        # Or it is there twice.
        ("<parameter=s>\nx\n</parameter>\n</parameter>\n", {"s": "x"}),
        # The word null.
        ("<parameter=s>\nnull\n</parameter>\n", {"s": None}),
        ("<parameter=s>null</parameter>\n", {"s": None}),
        ('<parameter=s>\n"null"\n</parameter>\n', {"s": '"null"'}),
        ("<parameter=s>\nNone\n</parameter>\n", {"s": "None"}),
        ("<parameter=s>\nnullify\n</parameter>\n", {"s": "nullify"}),
        ("<parameter=s>\nnull\n\n</parameter>\n", {"s": "null\n"}),
        ("<parameter=m>\nNone\n</parameter>\n", {"m": None}),
        ("<parameter=n>\nNone\n</parameter>\n", {"n": None}),
        # Names.
        ('<parameter="s">\nx\n</parameter>\n', {"s": "x"}),
        ("<parameter= s >\nx\n</parameter>\n", {"s": "x"}),
        ("<parameter=new>\n[1]\n</parameter>\n", {"new": [1]}),
        # An object instead of parameters.
        ('{"s": "x", "n": [1, {"a": 2}]}\n', {"s": "x", "n": [1, {"a": 2}]}),
    ],
)
def test_parameters_of_qwen_coder(parameters: str, arguments: dict[str, Any]) -> None:
    assert reads(QWEN, qwen(parameters), ANY) == ("", [("f", arguments)])


def test_only_qwen_coder_takes_null_for_any_type() -> None:
    text = qwen("<parameter=s>\nnull\n</parameter>\n")
    assert reads(MIMO, text, ANY) == ("", [("f", {"s": "null"})])


def test_the_opener_may_be_missing_for_a_known_function() -> None:
    call = "<function=f>\n<parameter=s>\nx\n</parameter>\n</function>\n</tool_call>"
    assert reads(QWEN, f"Well. {call} Ok.", ANY) == ("Well.  Ok.", [("f", {"s": "x"})])
    other = "Write <function=name> and then <parameter=key>."
    assert reads(QWEN, other, ANY) == (other, [])
    assert reads(MIMO, call, ANY) == (call, [])


def test_an_object_for_a_call() -> None:
    for form, text in (
        (DOTS, '<dots_function_call>{"name": "f", "arguments": {"n": 1}}</dots_function_call>'),
        (QWEN, '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'),
    ):
        assert reads(form, f"{text} ok {text}", ANY) == (" ok ", [("f", {"n": 1})] * 2)


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call> is how a call begins.",
        "<tool_call>\n<function=two words>\n</function>\n</tool_call>",
        "<tool_call>\n<function=>\n</function>\n</tool_call>",
        "<tool_call>\n<function=f<parameter=s>x</parameter></function></tool_call>",
        "<tool_call></tool_call>",
        '<tool_call>{"no": "call"}</tool_call>',
        "<tool_call>" + "<function=" + "x" * 5000,
        "</tool_call></function></parameter>",
    ],
    ids=lambda text: text[:40],
)
def test_what_is_no_call_stays_text(text: str) -> None:
    assert reads(MIMO, text, ANY) == (text, [])


def test_a_bad_tag_does_not_take_the_next_opener_with_it() -> None:
    call = qwen("<parameter=n>\n1\n</parameter>\n")
    content, calls = reads(MIMO, f"<tool_call>\n<function=bad {call}", ANY)
    assert content == "<tool_call>\n<function=bad "
    assert calls == [("f", {"n": 1})]


def test_a_parameter_without_a_name_ends_the_call() -> None:
    text = qwen("<parameter=n>\n1\n</parameter>\n<parameter=>\n2\n</parameter>\n")
    content, calls = reads(QWEN, f"{text} ok", ANY)
    assert calls == [("f", {"n": 1})]
    assert content.split() == ["<parameter=>", "2", "ok"]


def test_a_call_that_the_next_one_ends() -> None:
    text = "<tool_call><function=f><parameter=n>1</parameter>" + qwen("")
    assert reads(MIMO, text, ANY) == ("", [("f", {"n": 1}), ("f", {})])
    text = "<tool_call><function=f><parameter=n>1</parameter></tool_call> ok"
    assert reads(MIMO, text, ANY) == (" ok", [("f", {"n": 1})])


def test_an_argument_that_is_cut_off_is_not_closed() -> None:
    reading = reading_of(QWEN, ANY)
    start = "<tool_call>\n<function=f>\n<parameter=s>\n"
    for text, arguments in (
        ("", ""),
        ("nul", ""),
        ("Ber", '{"s": "Ber'),
        ("Ber\n", '{"s": "Ber'),
        ("Ber\n</param", '{"s": "Ber'),
        ("Ber\n</parameter>", '{"s": "Ber"'),
        ("Ber\n</parameter>\n<parameter=n>\n12", '{"s": "Ber"'),
    ):
        result = read_every_way(reading, start + text)
        assert [call.arguments for call in result.calls] == [arguments]
        assert result.completed == 0
        assert result.content == ""


def test_a_nullable_string_cut_off() -> None:
    call = "<tool_call><function=f><parameter=m>{}</parameter></function></tool_call>"
    for value in ("null", "nutmeg", "None", "North", "x"):
        check_truncated(QWEN, call.format(value), ANY)


def test_two_calls_with_the_same_parameter() -> None:
    text = (
        '<minimax:tool_call><invoke name="f"><parameter name="n">1</parameter></invoke>'
        '<invoke name="f"><parameter name="n">2</parameter></invoke>'
        '<invoke name="g"></invoke></minimax:tool_call>'
    )
    assert reads(MINIMAX, text, ANY) == ("", [("f", {"n": 1}), ("f", {"n": 2}), ("g", {})])


def test_values_of_minimax_are_not_decoded() -> None:
    html = '<p class="x">a &amp; b</p>\n<i>2 &lt; 3</i>\n'
    text = (
        '<minimax:tool_call><invoke name="f">'
        f"<parameter name='s'>{html}</parameter></invoke></minimax:tool_call>"
    )
    assert reads(MINIMAX, text, ANY) == ("", [("f", {"s": html})])


def test_an_invoke_alone_is_text_to_minimax() -> None:
    text = '<invoke name="f"><parameter name="n">1</parameter></invoke>'
    assert reads(MINIMAX, text, ANY) == (text, [])


def test_a_call_of_step3_without_a_block() -> None:
    call = (
        '<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f">'
        '<steptml:parameter name="n">1</steptml:parameter></steptml:invoke><｜tool_call_end｜>'
    )
    assert reads(STEP3, f"{call}\n{call}<｜tool_calls_end｜>", ANY) == ("", [("f", {"n": 1})] * 2)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a &amp;&lt;b&gt; &quot;c&quot; &apos;d&#39; &#34;", 'a &<b> "c" \'d\' "'),
        ("&amp;lt;", "&lt;"),
        ("a & b &nbsp; &amp", "a & b &nbsp; &amp"),
        ("<![CDATA[<b>&amp;</b>\n]]>", "<b>&amp;</b>\n"),
        ("a<![CDATA[<]]>b<![CDATA[]]>&gt;", "a<b>"),
        ("<![CDATA[</param>]]>", "</param>"),
        ("<![CDATA", "<![CDATA"),
    ],
)
def test_values_of_minicpm_are_xml(value: str, text: str) -> None:
    parameters = "".join(f'<param name="{key}">{value}</param>' for key in "sx")
    call = f'<function name="f">{parameters}</function>'
    content, calls = reads(MINICPM, f"{call} ok", ANY)
    assert content == " ok"
    assert calls == [("f", {"s": text, "x": text})]


def test_a_value_of_minicpm_cut_off_in_cdata() -> None:
    call = '<function name="f"><param name="s">a&lt;<![CDATA[b]]&gt;]]></param></function>'
    check_truncated(MINICPM, call, ANY)


def test_only_known_functions_are_calls_where_nothing_marks_them() -> None:
    text = '<function name="main"> <param name="s">x</param></function>'
    assert reads(MINICPM, text, ANY) == (text, [])


def test_arguments_are_json_even_with_odd_names() -> None:
    text = '<minimax:tool_call><invoke name="f"><parameter name=\'a"\\b\'>1</parameter></invoke>'
    result = read(reading_of(MINIMAX, ANY), [text])
    assert json.loads(result.calls[0].arguments) == {'a"\\b': 1}
    assert parsed(result)


FILES = tools_of(content={"type": "string"}, path={"type": "string"})


@pytest.mark.parametrize("form", [QWEN, MIMO], ids=["qwen3_coder", "mimo"])
@pytest.mark.parametrize(
    "content",
    [
        "a</parameter>b",
        "a</parameter>",
        "</parameter>",
        "use <parameter=path> here",
        "<parameter=path>x",
        "a\n<parameter=other>\nb",
        "use </function> here",
        "use </tool_call> here",
        "a\n</function>\n</tool_call>\nb",
        "a\n</parameter>\n</function>\nb",
        # Whatever closes a call, before the end of the value itself.
        "a\n</parameter>\n</function>\n</tool_call>",
        qwen("<parameter=path>\nx\n</parameter>\n"),
        "<tool_call>\n<function=",
        "<tool_call>\n<function=f>\n",
    ],
)
def test_tags_in_a_string(form: Any, content: str) -> None:
    first = f"<parameter=content>\n{content}\n</parameter>\n"
    second = "<parameter=path>\nt\n</parameter>\n"
    arguments = {"content": content, "path": "t"}
    assert reads(form, qwen(first + second), FILES) == ("", [("f", arguments)])
    assert reads(form, qwen(second + first) + " ok", FILES) == (" ok", [("f", arguments)])


@pytest.mark.parametrize("blanks", [0, 1, 500, 511, 512, 513, 2000])
def test_white_space_before_what_follows_an_end(blanks: int) -> None:
    """So much of it is looked through; beyond that, the end is one."""
    space = " " * blanks
    text = qwen(f"<parameter=content>\na</parameter>{space}b\n</parameter>\n")
    result = read_every_way(reading_of(MIMO, FILES), text, most=300)
    whole = f"a</parameter>{space}b" if blanks <= 512 else "a"
    assert json.loads(result.calls[0].arguments) == {"content": whole}
    text = qwen(f"<parameter=content>\na</parameter>{space}<parameter=path>\nt\n</parameter>\n")
    assert reads(MIMO, text, FILES) == ("", [("f", {"content": "a", "path": "t"})])


def test_the_first_of_two_parameters_with_one_name_counts() -> None:
    twice = "<parameter=s>\n{}\n</parameter>\n<parameter=s>\n{}\n</parameter>\n"
    text = qwen(twice.format("a", "b") + "<parameter=n>\n5\n</parameter>\n")
    result = read_every_way(reading_of(QWEN, ANY), text)
    assert [call.arguments for call in result.calls] == ['{"s": "a", "n": 5}']
