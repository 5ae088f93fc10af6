"""Small templates of every construct that chat templates use, and what Transformers renders of them."""

import datetime
import json

from transformers.utils import chat_template_utils

import template_chats


class Today(datetime.datetime):
    """A clock that stands."""

    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 4, 15, 6, 7)


LOOP = """
{%- set ns = namespace(last=-1, text='') %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {%- set ns.last = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- macro show(m, mark='#', closing=none) -%}
    {{ mark }}{{ m['role'] | upper }}: {{ m.content if m.content is string else (m.content or []) | map(attribute='text') | join('+') }}{{ closing or mark }}
{%- endmacro %}
{%- for m in messages if m.role != 'tool' %}
  {%- if loop.first and m.role != 'system' %}<default>
  {% endif %}
  {%- generation %}{{- show(m, closing='.') }}{% endgeneration %}
  {%- if not loop.last %}{{ loop.index }}/{{ loop.length }};{% else %}!{{ loop.revindex0 }}{{ loop.previtem.role }}{% endif %}
{%- else %}nobody{%- endfor %}
{{ ns.last }}{{ add_generation_prompt }}
"""
TOOLS = """{%- if tools %}
    {{- '# Tools\n' }}
    {%- for tool in tools %}
        {{- tool | tojson }}
        {{- '\n' ~ tool.function.name ~ (tool['function'].parameters.properties | tojson(indent=2)) }}
        {%- for name, spec in tool.function.parameters.properties.items() %}
            {{- name }}:{{ spec.type if spec.type is string else spec.type | join('|') }}
            {%- if spec.enum is defined and spec['enum'] is not none %}{{ spec.enum[0] }}{% endif %}
            {%- if name in tool.function.parameters.required | default([]) %}*{% endif %}
            {%- if spec.default is defined %} = {{ spec.default | tojson }}{% endif %}{{ ', ' if not loop.last }}
        {%- endfor %}
    {%- endfor %}
{%- else %}none{%- endif %}"""
REFUSES = "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns!') }}{% endif %}{{ m.content }}{% endfor %}"

SMALL = [
    "a  {%- if true -%}  b  {%- endif -%}  c\n{{ 1 }}\n{% if 1 %}\n  x\n  {% endif %}\n  y {#- note -#} z\n  {# alone #}\nend\n",
    "  {%+ if true %}\n kept\n {%+ endif +%}\nx\n\n",
    "{% raw %}{{ raw }} {% if %}{% endraw %}\n|{{- ' a ' -}}| {{ '{{' }} {{ \"}}\" }}\r\nline\rline",
    "{{ 'it\\'s' }}{{ \"a\\\"b\" }}{{ '\\n\\t\\\\x\\x41\\u00e9\\q' }}{{ 'a' 'b' }}",
    "{{ 1 + 2 * 3 - 4 // 3 }} {{ 7 % 3 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 1.5 * 2 }} {{ 1e20 }} {{ 1e-5 }} {{ 0.1 + 0.2 }}",
    "{{ 1 < 2 }} {{ 'a' >= 'b' }} {{ [1, 2] == [1, 2] }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' in 'cat' }} {{ 3 not in [1, 2] }} {{ not 1 in [1] }}",
    "{{ none }} {{ true }} {{ [1, 'a', none, 2.0, {'k': \"it's\"}] }} {{ (1,) }} {{ () }} {{ 'x' if false }}|{{ missing }}|",
    "{{ 'a' ~ 1 ~ none ~ true }} {{ 'ab' * 3 }} {{ [1] + [2] }} {{ 1 ~ 2 + 3 }}",
    "{{ 'hello'[1] }}{{ 'hello'[-1] }}{{ 'hello'[1:3] }}{{ 'hello'[::-1] }}{{ 'hello'[:-1] }}{{ [1,2,3][1:] }}{{ 'größe'[2:4] }}{{ 'a'[5] }}",
    "{{ ' \t x y\n' | trim }}|{{ ' x '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ '\n\na\n'.lstrip('\n') }}|{{ 'a  '.rstrip() }}|",
    "{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a-b-c'.split('-', 1) }} {{ 'a-b-c'.rsplit('-', 1) }} {{ 'a</t>b'.split('</t>')[-1] }} {{ 'a\nb'.splitlines() }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'bc')) }} {{ 'aXbX'.replace('X', '-') }} {{ 'aXbX' | replace('X', '', 1) }} {{ 'abc'.find('c') }} {{ 'a b'.title() }} {{ 'ab cd' | title }} {{ 'ABC'.lower() | capitalize }} {{ 'Größe' | upper }}",
    "{{ '12' | int + 1 }} {{ 'x' | int }} {{ '3.7' | int }} {{ '2.5' | float }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ [3, 1, 2] | sort }} {{ ['b', 'A', 'c'] | sort(reverse=true) }} {{ [1, 2, 3] | sum }} {{ [1, 5, 3] | max }} {{ [1, 2, 3] | first }}{{ [1, 2, 3] | last }}",
    "{{ [1, 2, 3, 4] | select('odd') | list }} {{ [1, 2] | reject('equalto', 1) | list }} {{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ messages | rejectattr('role', 'in', ['user']) | map(attribute='role') | join(',') }} {{ ['a', 'b'] | map('upper') | join }} {{ [1, 1, 2] | unique | list }} {{ 'abc' | list }} {{ 'abc' | reverse }}",
    "{% if [] | select('odd') %}generators are true{% endif %}{% set g = [1, 2] | map('string') %}{{ g | join }}{{ g | join }}|",
    "{{ {'b': 1, 'a': 2} | dictsort }} {{ {'a': 1}.get('b', 'no') }} {{ {'a': 1}.keys() | list }} {{ {'a': 1}.values() | list }} {{ {'a': 1} | items | list }} {{ 'a' in {'a': 1} }} {{ dict(a=1, b='c') | tojson }}",
    "{{ x is defined }} {{ tools is none }} {{ messages is iterable }} {{ 'a' is string }} {{ {} is mapping }} {{ 1 is number }} {{ true is boolean }} {{ 1 is integer }} {{ messages is sequence }} {{ 4 is divisibleby 2 }} {{ 3 is odd }} {{ 'a' is in ['a'] }} {{ none is not none }} {{ true is true }} {{ raise_exception is callable }} {{ 'A' is upper }}",
    "{{ x | default('d') }} {{ '' | default('e', true) }} {{ none | d('f') }} {{ messages | length }} {{ x | length }} {{ x is undefined and not x }}",
    "{{ '<a> & \"b\"' | tojson }} {{ 'é\u2028\\n\\t/' | tojson }} {{ {'a': [1, 2.0, true, none], 'b': {}} | tojson(indent=4) }} {{ [] | tojson(indent=2) }} {{ {'b': 1, 'a': 'é'} | tojson(sort_keys=true, ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ '' | indent(2) }}|",
    "{% set a = 1 %}{% for i in range(3) %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }}{% set b, c = 1, 'x' %}{{ b }}{{ c }}{% set d %}block {{ a }}{% endset %}{{ d }}{% set e | upper | replace('Y', '-') %}xyz{% endset %}{{ e }}",
    "{% for i in range(10) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}{% for k, v in {'a': 1, 'b': 2}.items() %}{{ k }}{{ v }}{% endfor %}{% for x in [] %}{% else %}none{% endfor %}{% for c in 'añ' %}{{ loop.cycle('x', 'y') }}{{ c }}{% endfor %}",
    "{% macro f(a, b=2, c='z') %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, c=3) }}{{ f(b=1) }}{{ f(*[1, 2], **{'c': 4}) }}{% set g = 5 %}{% macro h() %}{{ g }}{% endmacro %}{{ h() }}",
    "{{ strftime_now('%d %b %Y, %A %B %-d %y %H:%M:%S %I %p %j %m %a') }}",
    "{{ messages[0].content }}{{ messages[-1]['role'] }}{{ messages[0].nothing is defined }}{{ messages[0]['nothing'] | default('-') }}{{ messages[1:] | length }}{{ messages | tojson }}",
    "{%- set budgets = {0: 0, 512: 128, 1024: 256, true: 'one'} -%}{% for k, v in budgets | dictsort %}{{ k }}:{{ v }} {% endfor %}{{ budgets[512] }} {{ budgets[1.0] }} {{ 1024.0 in budgets }} {{ '512' in budgets }} {{ budgets[3] is defined }} {{ budgets.get(0) }} {{ budgets }} {{ budgets | tojson }}",
    "{% for k, v in {2: 'b', none: 'n', '2': 't', 2.5: 'f', false: 'x', 0: 'y'}.items() %}{{ k }}={{ v }};{% endfor %}{{ {3: 1, 1.5: 2} | tojson(sort_keys=true, indent=1) }} {{ dict({1: 2}, a=3) }} {{ dict([(1, 'x'), ('y', 2)]) }} {{ {1: 2} == {true: 2.0} }} {{ {1: 'a', 1.0: 'b'} }}",
    "{{ {1: 2, 'a': 3} | dictsort }}",
    "{{ [1] in {1: 2} }}",
    "{{ dict(**{1: 2}) }}",
    "{{ {1: 2}.items()[0] is defined }} {{ {1: 2}.items() is sequence }} {{ 'x' if {}.keys() else 'y' }} {{ {1: 2}.items() | length }}",
    "{{ messages[0].nothing.more }}",
    "{{ 1 + 'a' }}",
    "{{ messages.append(1) }}",
    "{{ [1, 2] | map('string') | tojson }}",
    "{{ {'items': 1}.items is callable }}{{ {'items': 1}['items'] }}",
    "{{ '<b>' | safe + '<i>' }}",
    "{% generation %}{% set inner = 1 %}{% endgeneration %}{{ inner is defined }}",
    "{{ bos_token }}{{ eos_token + '\n' }}{{ tools }}{{ documents }}",
    "{%- for m in messages -%}{{ '<|' + m.role + '|>' }}{%- if m['content'] is string -%}{{ m['content'] }}{%- else -%}{% for part in m.content %}{{ part['text'] }}{% endfor %}{%- endif -%}{%- endfor -%}",
]


def write(fixtures):
    chat_template_utils.datetime = Today
    chats = template_chats.CHATS
    plain = [
        {"messages": chat, "tools": None, "documents": None, "add_generation_prompt": True, **template_chats.TOKENS}
        for chat in chats
    ]
    with_tools = {**plain[0], "tools": template_chats.TOOLS}
    cases = [(template, [plain[3]]) for template in SMALL]
    cases += [(LOOP, plain[:5] + plain[-1:]), (TOOLS, [plain[0], with_tools]), (REFUSES, plain)]
    rows = []
    for template, requests in cases:
        for variables in requests:
            rest = dict(variables)
            try:
                text = chat_template_utils.render_jinja_template(
                    conversations=[rest.pop("messages")],
                    chat_template=template,
                    tools=rest.pop("tools"),
                    documents=rest.pop("documents"),
                    **rest,
                )[0][0]
            except Exception:
                text = None
            rows.append({"template": template, "variables": json.dumps(variables, ensure_ascii=False), "text": text})
    lines = ",\n".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) for row in rows)
    (fixtures / "templates.json").write_text('{"rows": [\n' + lines + "\n]}\n")
    return rows


if __name__ == "__main__":
    import pathlib

    for row in write(pathlib.Path(__file__).parent / "fixtures"):
        print(repr(row["text"])[:200])
