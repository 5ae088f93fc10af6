"""Chat templates with the marks of published ones, and what Transformers makes of chats with them."""

import json

SYSTEM = {"role": "system", "content": "You answer briefly.\nIn English."}


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


CHATS = [
    [user("Hello")],
    [SYSTEM, user("Who lit the lamp?")],
    [user("a"), assistant("b"), user("c")],
    [SYSTEM, user("Größe? 漢字 👩‍🚀"), assistant("Yes,\n\nindeed."), user("1234\n\n  and  so on...")],
    [SYSTEM, user("  spaces around \n"), assistant("\n answer \n\n"), user("\tx\u00a0\n")],
    [user("\n\nlines first"), assistant("It's\n"), user("they'll\n\n\n"), assistant(" ok ")],
    [SYSTEM, user("one"), assistant("<think>\nhm\n</think>\n\ntwo"), user("three"), assistant("four"), user("five")],
    [SYSTEM, user(""), assistant("x"), user(" ")],
    [user("one"), assistant("two")],
    [user("one"), assistant("<think>\nhm\n</think>\n\ntwo")],
]

LOOP = "{% for message in messages %}"
RAISE = "{{ raise_exception('roles must alternate') }}"
GENERATION = "{% if add_generation_prompt %}"

CHATML = (
    LOOP
    + "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    + GENERATION
    + "{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
CHATML_SYSTEM = (
    "{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou help with lamps.<|im_end|>\\n' }}{% endif %}"
    + CHATML
)
# Files often have the line breaks themselves in their literals, and branches for tools.
CHATML_TOOLS = """{%- if tools %}{{- '<|im_start|>system\\n' }}{{- 'Tools' }}{{- '<|im_end|>\\n' }}{%- else %}\
{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}\
{%- else %}{{- '<|im_start|>system\\nIt\\'s "you".\\nLine two.<|im_end|>\\n' }}{%- endif %}{%- endif %}\
{%- for message in messages %}{%- if message.role != 'system' or not loop.first %}\
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}{%- endif %}{%- endfor %}\
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""
THINKING = """{%- set ns = namespace(last=-1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' and loop.index0 < ns.last and '</think>' in content %}
        {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA2 = """{% if messages[0]['role'] == 'system' %}{% set rest = messages[1:] %}{% set system = messages[0]['content'] %}{% else %}\
{% set rest = messages %}{% set system = false %}{% endif %}{% for message in rest %}\
{% if loop.index0 == 0 and system != false %}{% set content = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + message['content'] %}\
{% else %}{% set content = message['content'] %}{% endif %}\
{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}\
{% else %}{{ ' ' + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"""
LLAMA3 = (
    "{{ bos_token }}"
    + LOOP
    + "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + "
    "'<|eot_id|>' }}{% endfor %}"
    + GENERATION
    + "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
LLAMA31 = """{{- bos_token }}
{%- if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] | trim %}{% set messages = messages[1:] %}{% else %}\
{% set system = '' %}{% endif %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting Knowledge Date: December 2023\\nToday Date: 26 Jul 2024\\n\\n' }}
{{- system }}{{- '<|eot_id|>' }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
SYSTEM_FIRST = (
    "{%- if messages[0]['role'] == 'system' %}{% set system_message = messages[0]['content'] %}{% set rest = messages[1:] %}"
    "{% else %}{% set rest = messages %}{% endif %}"
)
MISTRAL_V1 = SYSTEM_FIRST + """{{- bos_token }}{%- for message in rest %}{%- if message['role'] == 'user' %}\
{%- if loop.first and system_message is defined %}{{- ' [INST] ' + system_message + '\\n\\n' + message['content'] + ' [/INST]' }}\
{%- else %}{{- ' [INST] ' + message['content'] + ' [/INST]' }}{%- endif %}\
{%- else %}{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"""
MISTRAL_V1_OLD = (
    "{{ bos_token }}"
    + LOOP
    + "{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% else %}"
    "{{ message['content'] + eos_token + ' ' }}{% endif %}{% endfor %}"
)
MISTRAL_V3 = SYSTEM_FIRST + """{{- bos_token }}{%- for message in rest %}{%- if message['role'] == 'user' %}\
{%- if loop.last and system_message is defined %}{{- '[INST] ' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}\
{%- else %}{{- '[INST] ' + message['content'] + '[/INST]' }}{%- endif %}\
{%- else %}{{- ' ' + message['content'] + eos_token }}{%- endif %}{%- endfor %}"""
MISTRAL_V3_TRIM = MISTRAL_V3.replace("message['content'] + eos_token", "message['content']|trim + eos_token")
MISTRAL_V3_TEKKEN = SYSTEM_FIRST + """{{- bos_token }}{%- for message in rest %}{%- if message['role'] == 'user' %}\
{%- if loop.last and system_message is defined %}{{- '[INST]' + system_message + '\\n\\n' + message['content'] + '[/INST]' }}\
{%- else %}{{- '[INST]' + message['content'] + '[/INST]' }}{%- endif %}\
{%- else %}{{- message['content'] + eos_token }}{%- endif %}{%- endfor %}"""
MISTRAL_V7 = (
    "{{ bos_token }}"
    + LOOP
    + """{%- if message['role'] == 'system' %}{{ '[SYSTEM_PROMPT]' + message['content'] + '[/SYSTEM_PROMPT]' }}\
{%- elif message['role'] == 'user' %}{{ '[INST]' + message['content'] + '[/INST]' }}\
{%- else %}{{ message['content'] + eos_token }}{%- endif %}{%- endfor %}"""
)
ERNIE = """{%- if not cls_token is defined -%}{%- set cls_token = "<|begin_of_sentence|>" -%}{%- endif -%}
{%- if not sep_token is defined -%}{%- set sep_token = "<|end_of_sentence|>" -%}{%- endif -%}
{{- cls_token -}}
{%- for message in messages -%}
{%- if message["role"] == "user" -%}{{- "User: " + message["content"] + "\n" -}}
{%- elif message["role"] == "assistant" -%}{{- "Assistant: " + message["content"] + sep_token -}}
{%- else -%}{{- message["content"] + "\n" -}}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- "Assistant: " -}}{%- endif -%}"""
GEMMA = """{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}{%- set prefix = messages[0]['content'] + '\n\n' -%}\
{%- set rest = messages[1:] -%}{%- else -%}{%- set prefix = '' -%}{%- set rest = messages -%}{%- endif -%}
{%- for message in rest -%}{%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
{{ '<start_of_turn>' + role + '\n' + (prefix if loop.first else '') }}{{ message['content'] | trim }}{{ '<end_of_turn>\n' }}{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"""
PHI3 = (
    LOOP
    + """{% if message['role'] == 'system' %}{{'<|system|>\\n' + message['content'] + '<|end|>\\n'}}\
{% elif message['role'] == 'user' %}{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}\
{% else %}{{'<|assistant|>\\n' + message['content'] + '<|end|>\\n'}}{% endif %}{% endfor %}"""
    + GENERATION
    + "{{ '<|assistant|>\\n' }}{% endif %}"
)
PHI4_MINI = (
    LOOP
    + "{{ '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}{% endfor %}"
    + GENERATION
    + "{{ '<|assistant|>' }}{% endif %}"
)
PHI4 = (
    LOOP
    + "{{ '<|im_start|>' + message['role'] + '<|im_sep|>' + message['content'] + '<|im_end|>' }}{% endfor %}"
    + GENERATION
    + "{{ '<|im_start|>assistant<|im_sep|>' }}{% endif %}"
)

# Templates with a known format's marks that do more than it; the library runs these.
EMPTY_THOUGHT = """{%- set ns = namespace(last=messages|length - 1) %}
{%- for message in messages %}{% if message.role == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for message in messages %}
    {%- set content = message.content %}
    {%- if message.role == 'assistant' %}
        {%- set thought = '' %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].split('<think>')[-1].strip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last %}{% set content = '<think>\\n' + thought + '\\n</think>\\n\\n' + content %}{% endif %}
    {%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
BEGUN_THOUGHT = CHATML.replace("assistant\\n' }}{% endif %}", "assistant\\n<think>\\n' }}{% endif %}")
METADATA = """{%- if messages[0].role == 'system' %}{% set own = messages[0].content %}{% set rest = messages[1:] %}\
{% else %}{% set own = 'You are a lamp.' %}{% set rest = messages %}{% endif %}
{{- '<|im_start|>system\\n## Metadata\\n\\nReasoning: ' ~ ('/think' if '/no_think' not in own else '/no_think') ~ '\\n\\n' }}
{{- own.replace('/no_think', '').rstrip() ~ '\\n\\n' }}
{%- for message in rest %}{{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""
DEFAULT_SYSTEM = """{%- set default = 'You are a lamp.\\nYou shine.' %}{{- bos_token }}
{%- if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set rest = messages[1:] %}\
{% else %}{% set system = default %}{% set rest = messages %}{% endif %}
{{- '[SYSTEM_PROMPT]' + system + '[/SYSTEM_PROMPT]' }}
{%- for message in rest %}{%- if message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}\
{%- elif message.role == 'system' %}{{- '[SYSTEM_PROMPT]' + message.content + '[/SYSTEM_PROMPT]' }}\
{%- else %}{{- message.content + eos_token }}{% endif %}{% endfor %}"""
LLAMA3_CALLS = (
    "{{ bos_token }}<|start_header_id|>system<|end_header_id|>\n\nYou may call functions.<|eot_id|>" + LLAMA3[len("{{ bos_token }}") :]
)
PHI3_END = PHI3.replace("<|assistant|>\\n' }}{% endif %}", "<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}")
PHI3_FIRST = (
    "{{ bos_token }}"
    + LOOP
    + """{% if message['role'] == 'user' %}{{'<|user|>' + '\\n' + message['content'] + '<|end|>' + '\\n' + '<|assistant|>' + '\\n'}}\
{% elif message['role'] == 'assistant' %}{{message['content'] + '<|end|>' + '\\n'}}{% endif %}{% endfor %}"""
)
PHI4_MINI_END = PHI4_MINI.replace("{% endif %}", "{% else %}{{ eos_token }}{% endif %}")

# Format, tokenizer, template, bos and eos.
FORMATS = [
    ("chatml", "qwen2", CHATML, None, "<|im_end|>"),
    ("chatml", "qwen2", CHATML_SYSTEM, None, "<|im_end|>"),
    ("chatml", "qwen2", CHATML_SYSTEM.replace("\\n", "\n"), None, "<|im_end|>"),
    ("chatml", "qwen2", CHATML_TOOLS, None, "<|im_end|>"),
    ("chatml", "qwen2", THINKING, None, "<|im_end|>"),
    ("chatml", "starcoder", "{{ bos_token }}" + CHATML, "<|endoftext|>", "<|im_end|>"),
    ("llama-2", "llama2", LLAMA2, "<s>", "</s>"),
    ("llama-2", "gemma", LLAMA2, "<s>", "</s>"),
    ("llama-3", "llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
    ("llama-3.1", "llama3", LLAMA31, "<|begin_of_text|>", "<|eot_id|>"),
    ("mistral-v1", "llama2", MISTRAL_V1, "<s>", "</s>"),
    ("template", "llama2", MISTRAL_V1_OLD, "<s>", "</s>"),
    ("mistral-v1", "mistral", MISTRAL_V1, "<s>", "</s>"),
    ("mistral-v3", "mistral", MISTRAL_V3, "<s>", "</s>"),
    ("mistral-v3", "mistral", MISTRAL_V3_TRIM, "<s>", "</s>"),
    ("mistral-v3", "mistral", MISTRAL_V3_TEKKEN, "<s>", "</s>"),
    ("mistral-v7", "mistral", MISTRAL_V7, "<s>", "</s>"),
    ("ernie", "starcoder", ERNIE, None, "<|endoftext|>"),
    ("gemma", "gemma", GEMMA, "<s>", "</s>"),
    ("gemma", "gemma", GEMMA.replace(" | trim", ""), "<s>", "</s>"),
    (
        "llama-3",
        "llama3",
        LLAMA3.replace(" | trim", "").replace("{{ bos_token }}", ""),
        "<|begin_of_text|>",
        "<|eot_id|>",
    ),
    ("phi-3", "llama2", PHI3, "<s>", "</s>"),
    ("phi-3", "llama2", PHI3.replace("\\n", "\n"), "<s>", "</s>"),
    ("phi-4-mini", "o200k", PHI4_MINI, "<|endoftext|>", "<|endoftext|>"),
    ("phi-4", "cl100k", PHI4, "<|endoftext|>", "<|im_end|>"),
    ("template", "qwen2", EMPTY_THOUGHT, None, "<|im_end|>"),
    ("template", "qwen2", BEGUN_THOUGHT, None, "<|im_end|>"),
    ("template", "qwen2", METADATA, None, "<|im_end|>"),
    ("template", "mistral", DEFAULT_SYSTEM, "<s>", "</s>"),
    ("template", "llama3", LLAMA3_CALLS, "<|begin_of_text|>", "<|eot_id|>"),
    ("template", "llama2", PHI3_FIRST, "<s>", "</s>"),
    ("phi-3", "llama2", PHI3_END, "<s>", "</s>"),
    ("phi-4-mini", "o200k", PHI4_MINI_END, "<|endoftext|>", "<|endoftext|>"),
]


def write(fixtures):
    from transformers import PreTrainedTokenizerFast

    formats = []
    for name, folder, template, bos, eos in FORMATS:
        config = {"eos_token": eos, **({"bos_token": bos} if bos else {})}
        tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=str(fixtures / folder / "tokenizer.json"), chat_template=template, **config
        )
        cases = []
        for chat in CHATS:
            if template == MISTRAL_V1_OLD and chat[0]["role"] == "system":
                continue
            for generation in (False, True):
                ids = tokenizer.apply_chat_template(
                    chat, add_generation_prompt=generation, tokenize=True, return_dict=False
                )
                cases.append(
                    {
                        "messages": [[m["role"], m["content"]] for m in chat],
                        "generation": generation,
                        "tokens": list(ids),
                    }
                )
        formats.append(
            {"name": name, "folder": folder, "config": {**config, "chat_template": template}, "cases": cases}
        )
    text = ",\n".join(json.dumps(f, ensure_ascii=False, separators=(",", ":")) for f in formats)
    (fixtures / "chats.json").write_text('{"formats": [\n' + text + "\n]}\n")
