#!/usr/bin/env python3
"""Writes the parts of the bindings that follow from include/nanolith/nanolith.h alone.

    bindings/generate.py           writes them
    bindings/generate.py --check   fails where a file is not what the header asks for

Rust gets its declarations and constants, C# its imports and enums, Python its prototypes and enums, Go its constants
(cgo reads the declarations itself), and each the setters of every option. All else in a binding is written by hand.
A new function in the header needs a run of this script and a safe wrapper in each language;
tests/bindings/check_coverage.py tells which ones are missing. A new option or fact needs a run of this script alone.

What a declaration means stands in the header's marks (NL_OUT, NL_ARRAY and so on, which it explains at its top).
Nothing is guessed from names: a pointer without a mark that needs one ends the run.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "nanolith" / "nanolith.h"
NEWER = "A newer library may know more values."
NOTE = "Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit."


# ---- Reading the header ----------------------------------------------------------------------------------------


class Parameter:
    """`type` is the C type without its name, with single spaces: "const nl_chunk*const*". `mark` is "NL_OUT",
    "NL_ARRAY" or ""."""

    def __init__(self, text):
        match = re.fullmatch(r"(?:(NL_OUT|NL_ARRAY)(?:\(\w+\))? )?(.*?)\s*(\w+)", " ".join(text.split()))
        self.mark = match.group(1) or ""
        self.name = match.group(3)
        self.type = re.sub(r"\s*\*\s*", "*", match.group(2))


class Function:
    """`symbol` is what the linker knows it by, where that is not its name."""

    def __init__(self, returns, name, parameters, doc, symbol=""):
        self.symbol = symbol
        self.returns = re.sub(r"\s*\*\s*", "*", returns.strip())
        self.name = name
        self.parameters = [] if parameters.strip() == "void" else [Parameter(p) for p in parameters.split(",")]
        self.doc = doc


class Constant:
    """`takes` is the mark of an option's key, "NL_TAKES_INT" or "NL_TAKES_CHOICE(Dtype)"; "" for other constants."""

    def __init__(self, name, value, doc, takes):
        self.name, self.value, self.doc, self.takes = name, value, doc, takes


class Enum:
    """The constants of one type. `prefix` is what their names begin with in C."""

    def __init__(self, name, prefix, flags, doc, constants):
        self.name, self.prefix, self.flags, self.doc, self.constants = name, prefix, flags, doc, constants

    def short(self, constant):
        """NL_ENGINE_PAGE_SIZE -> PAGE_SIZE; NL_OK, which lacks its type's prefix, -> OK."""
        return constant.name[len(self.prefix if constant.name.startswith(self.prefix) else "NL_") :]

    def options(self):
        """Whether these are keys of options; those of EngineOption are set on EngineOptions."""
        return any(constant.takes for constant in self.constants)


PARAMETERS = r"((?:[^()]|\(\w+\))*)"


class Header:
    def __init__(self, text):
        self.handles = re.findall(r"^typedef struct (nl_\w+) \1;", text, re.M)
        self.callbacks = [
            Function(returns, name, parameters, doc_before(text, match_start))
            for returns, name, parameters, match_start in find(
                r"^typedef (\w+) \(\*(nl_\w+)\)\(" + PARAMETERS + r"\);", text
            )
        ]
        self.functions = [
            Function(returns, name, parameters, doc_before(text, match_start), symbol)
            for returns, name, parameters, symbol, match_start in find(
                r"^NL_API ([^(]+?[ *])(nl_\w+)\(" + PARAMETERS + r"\)(?: NL_SYMBOL\(\"(\w+)\"\))?;", text
            )
        ]
        self.enums = [
            Enum(name, prefix, mark == "FLAGS", doc_before(text, match_start), constants_in(body))
            for mark, name, prefix, body, match_start in find(
                r"^enum NL_(NAMED|FLAGS)\((\w+), (\w+)\) \{(.*?)\};", text
            )
        ]
        for begin, understood in (("NL_API ", self.functions), ("enum ", self.enums)):
            declared = len(re.findall(rf"^{begin}", text, re.M))
            if declared != len(understood):
                sys.exit(
                    f"{HEADER}: {declared} declarations begin with {begin!r}, of which {len(understood)} were understood"
                )
        for function in self.functions:
            for parameter in function.parameters:
                self.check_mark(function, parameter)

    def check_mark(self, function, parameter):
        """What only one pointer leads to may be a handle or the caller's data; all other pointers need a mark."""
        base = re.match(r"(?:const )?(\w+)", parameter.type).group(1)
        pointers = parameter.type.count("*")
        plain = pointers == 0 or (pointers == 1 and (base in self.handles or base == "void"))
        returned = function.returns == "nl_status" or function.returns == "void"
        if not plain and not parameter.mark and returned:
            sys.exit(f"{HEADER}: {function.name}: {parameter.name} is a pointer without a mark: expected NL_OUT or NL_ARRAY")


def find(pattern, text):
    return [(*match.groups(), match.start()) for match in re.finditer(pattern, text, re.S | re.M)]


def clean(comment):
    """The lines of a comment without its signs."""
    lines = [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in comment.strip().splitlines()]
    return [line for line in lines if line]


def doc_before(text, position):
    """The comment that ends on the line above `position`."""
    match = re.search(r"/\*((?:(?!\*/).)*)\*/\n\Z", text[:position], re.S)
    return [] if match is None or re.match(r" -{4}", match.group(1)) else clean(match.group(1))


def constants_in(body):
    found = []
    pattern = (
        r"(?:/\*(?P<above>(?:(?!\*/).)*)\*/\s*)?(?P<name>NL_\w+)\s*=\s*(?P<value>\d+)"
        r"(?: (?P<takes>NL_[A-Z_]+(?:\(\w+\))?))?,?[ \t]*(?:/\*(?P<after>.*?)\*/)?"
    )
    for match in re.finditer(pattern, body, re.S):
        doc = clean(match["above"] or match["after"] or "")
        found.append(Constant(match["name"], int(match["value"]), doc, match["takes"] or ""))
    return found


def camel(name):
    """PAGE_SIZE -> PageSize; F32, BF16, BOS and OK stay recognisable."""
    return "".join(part.capitalize() for part in name.split("_"))


def comment(lines, sign, indent=""):
    return "".join(f"{indent}{sign} {line}\n" for line in lines)


def taken(constant):
    """What an option takes, and of NL_TAKES_CHOICE the type: ("NL_TAKES_CHOICE", "Dtype")."""
    match = re.fullmatch(r"(\w+?)(?:\((\w+)\))?", constant.takes)
    return match.group(1), match.group(2)


# ---- Rust ------------------------------------------------------------------------------------------------------

RUST_TYPES = {
    "char": "c_char", "void": "c_void", "size_t": "usize", "float": "f32", "double": "f64", "int32_t": "i32",
    "uint32_t": "u32", "int64_t": "i64", "uint64_t": "u64", "uint8_t": "u8",
}  # fmt: skip


def rust_type(c_type):
    """"const nl_chunk*const*" -> "*const *const nl_chunk"."""
    match = re.match(r"(const )?(\w+)", c_type)
    constant, rust = match.group(1), RUST_TYPES.get(match.group(2), match.group(2))
    for star in re.findall(r"\*(?:const)?", c_type):
        rust = f"*{'const' if constant else 'mut'} {rust}"
        constant = "const" in star
    return rust


def rust_doc(lines, indent):
    escaped = [line.replace("[", r"\[").replace("<", r"\<").replace("*", r"\*") for line in lines]
    return comment(escaped, "///", indent)


def rust_callback(callback):
    """Laid out as rustfmt does with lines of 120 characters."""
    arguments = [f"{p.name}: {rust_type(p.type)}" for p in callback.parameters]
    returns = "" if callback.returns == "void" else f" -> {rust_type(callback.returns)}"
    head, value = f"pub type {callback.name} =", f"Option<unsafe extern \"C\" fn({', '.join(arguments)}){returns}>;"
    for layout in (f"{head} {value}\n\n", f"{head}\n    {value}\n\n"):
        if max(map(len, layout.splitlines())) <= 120:
            return layout
    lines = "".join(f"        {argument},\n" for argument in arguments)
    return f"{head} Option<\n    unsafe extern \"C\" fn(\n{lines}    ){returns},\n>;\n\n"


def rust_sys(header):
    out = f"// {NOTE}\n\nuse crate::macros::{{functions, handles}};\nuse std::os::raw::{{c_char, c_void}};\n\n"
    out += "/// What became of a call: one of `NL_OK` and `NL_ERROR_*`.\npub type nl_status = i32;\n\n"
    out += "handles! {\n" + "".join(f"    {handle};\n" for handle in header.handles) + "}\n\n"
    for callback in header.callbacks:
        out += rust_doc(callback.doc, "") + rust_callback(callback)
    for enum in header.enums:
        for constant in enum.constants:
            out += rust_doc(constant.doc, "") + f"pub const {constant.name}: i32 = {constant.value};\n"
        out += "\n"
    out += "functions! {\n"
    for function in header.functions:
        arguments = ", ".join(f"{p.name}: {rust_type(p.type)}" for p in function.parameters)
        returns = "" if function.returns == "void" else f" -> {rust_type(function.returns)}"
        out += rust_doc(function.doc, "    ")
        if function.symbol:
            out += f'    #[cfg_attr(not(feature = "dlopen"), link_name = "{function.symbol}")]\n'
        out += f"    fn {function.name}({arguments}){returns};\n"
    return out + "}\n"


def rust_enums(header):
    out = f"// {NOTE}\n\nuse nanolith_sys as sys;\n"
    for enum in header.enums:
        base = "u32" if enum.flags else "i32"
        cast = f" as {base}" if base != "i32" else ""
        out += "\n" + rust_doc([*enum.doc, NEWER], "")
        out += "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n"
        out += f"pub struct {enum.name}(pub {base});\n\nimpl {enum.name} {{\n"
        for constant in enum.constants:
            out += rust_doc(constant.doc or [f"`{constant.name}`"], "    ")
            out += f"    pub const {enum.short(constant)}: {enum.name} = {enum.name}(sys::{constant.name}{cast});\n"
        out += "}\n"
    return out


def rust_setters(header):
    """EngineOptions and the others have set_int, set_float and set_text by hand: (self, key, value) -> Self."""
    out = f"// {NOTE}\n\n" + "//! A setter for each option; those of lists add an element.\n\n"
    options = [enum for enum in header.enums if enum.options()]
    choices = {taken(constant)[1] for enum in options for constant in enum.constants} - {None}
    used = sorted({f"{enum.name}s" for enum in options} | choices)
    out += f"use crate::{{{', '.join(used)}}};\nuse nanolith_sys as sys;\n"
    for enum in options:
        out += f"\nimpl {enum.name}s {{\n"
        for index, constant in enumerate(enum.constants):
            takes, choice = taken(constant)
            kind, argument, value = {
                "NL_TAKES_INT": ("int", "i64", "value"), "NL_TAKES_INT_LIST": ("int", "i64", "value"),
                "NL_TAKES_BOOL": ("int", "bool", "i64::from(value)"), "NL_TAKES_CHOICE": ("int", choice, "i64::from(value.0)"),
                "NL_TAKES_FLOAT": ("float", "f64", "value"),
                "NL_TAKES_TEXT": ("text", "impl AsRef<str>", "value.as_ref()"),
                "NL_TAKES_TEXT_LIST": ("text", "impl AsRef<str>", "value.as_ref()"),
            }[takes]  # fmt: skip
            out += "\n" if index else ""
            out += rust_doc(constant.doc, "    ")
            out += f"    pub fn {enum.short(constant).lower()}(self, value: {argument}) -> Self {{\n"
            out += f"        self.set_{kind}(sys::{constant.name}, {value})\n    }}\n"
        out += "}\n"
    return out


# ---- Go --------------------------------------------------------------------------------------------------------

GO_HEAD = "// Code generated by bindings/generate.py from nanolith.h. DO NOT EDIT.\n\npackage nanolith\n\n"
GO_HEAD += "// #include <nanolith/nanolith.h>\nimport \"C\"\n"


def go_name(constant, enum):
    """NL_ENGINE_PAGE_SIZE -> EnginePageSize; errors are called as Go's habit is: ErrNotFound."""
    if constant.name == "NL_OK":
        return "OK"
    stem = "Err" if enum.name == "Status" else camel(enum.prefix[len("NL_") :])
    return stem + camel(enum.short(constant))


def go_enums(header):
    out = GO_HEAD
    for enum in header.enums:
        base = "uint32" if enum.flags else "int32"
        out += "\n" + comment([f"{enum.name}: {enum.doc[0]}", *enum.doc[1:], NEWER], "//")
        out += f"type {enum.name} {base}\n\nconst (\n"
        for constant in enum.constants:
            out += comment(constant.doc, "//", "\t")
            out += f"\t{go_name(constant, enum)} {enum.name} = C.{constant.name}\n"
        out += ")\n"
    return go_format(out)


# What options have beside values.
GO_CALLBACKS = {
    "EngineOption": """\t// Log receives log lines, on any thread. It must not use this package; a panic in it is caught and ignored.
\tLog func(severity Severity, message string)
\t// Progress hears how far creating the engine has come, from 0 to 1. Another result than nil cancels that, and
\t// is NewEngine's error. It must not use this package; a panic in it cancels too, and goes on in NewEngine.
\tProgress func(done float64) error
""",
    "GenerationOption": """\t// Logits sees the logits from which a token is about to be drawn, one for each token of the vocabulary, and may
\t// change them: minus infinity for a token that must not be drawn. tokens are those of the whole cache. Sampling
\t// options, constraints and log-probabilities come after it, on what it leaves. Both slices are the library's, and
\t// valid during the call only.
\t//
\t// Another result than nil ends the generation, and is what Next gives in the end; with io.EOF it just ends, as
\t// EndCancelled. Logits that it leaves NaN or plus infinity, or all of them minus infinity, end it with
\t// ErrInvalidArgument. A panic in it ends the generation too, and goes on in Next.
\t//
\t// It is called by the engine's own thread, while all conversations of the engine wait, and must not use this package.
\t// Closing the generation waits for a call that is under way.
\tLogits func(tokens []int32, logits []float32) error
""",
}


def go_options(header):
    """setInt, setFloat and setText are written by hand: (options *C.nl_options, key int32, value) error."""
    out = GO_HEAD
    for enum in header.enums:
        if not enum.options():
            continue
        struct = f"{enum.name}s"
        out += "\n" + comment([f"{struct}: {enum.doc[0]}", *enum.doc[1:]], "//")
        out += "//\n// The zero value of a field means the library's default.\n"
        fields, sets = "", ""
        for constant in enum.constants:
            takes, choice = taken(constant)
            name = camel(enum.short(constant)) + ("s" if takes.endswith("_LIST") else "")
            kind, field, given, value = {
                "NL_TAKES_INT": ("Int", "int64", f"o.{name} != 0", f"o.{name}"),
                "NL_TAKES_BOOL": ("Int", "*bool", f"o.{name} != nil", f"number(*o.{name})"),
                "NL_TAKES_CHOICE": ("Int", choice, f"o.{name} != 0", f"int64(o.{name})"),
                "NL_TAKES_FLOAT": ("Float", "float64", f"o.{name} != 0", f"o.{name}"),
                "NL_TAKES_TEXT": ("Text", "string", f'o.{name} != ""', f"o.{name}"),
                "NL_TAKES_INT_LIST": ("Int", "[]int64", "", "element"),
                "NL_TAKES_TEXT_LIST": ("Text", "[]string", "", "element"),
            }[takes]
            fields += comment(constant.doc, "//", "\t") + f"\t{name} {field}\n"
            head = f"if {given}" if given else f"for _, element := range o.{name}"
            sets += f"\t{head} {{\n\t\tif err := set{kind}(options, C.{constant.name}, {value}); err != nil {{\n"
            sets += "\t\t\treturn err\n\t\t}\n\t}\n"
        out += f"type {struct} struct {{\n{fields}{GO_CALLBACKS.get(enum.name, '')}}}\n\n"
        out += f"func (o *{struct}) apply(options *C.nl_options) error {{\n{sets}\treturn nil\n}}\n"
    out += "\nfunc number(flag bool) int64 {\n\tif flag {\n\t\treturn 1\n\t}\n\treturn 0\n}\n"
    return out


def go_format(text):
    """Aligns the constants as gofmt does: within runs of lines without a comment between them."""
    lines, run = [], []

    def flush():
        width = max((len(first) for first, _ in run), default=0)
        kind = max((len(rest.split(" = ")[0]) for _, rest in run), default=0)
        for first, rest in run:
            type_name, value = rest.split(" = ")
            lines.append(f"\t{first.ljust(width)} {type_name.ljust(kind)} = {value}")
        run.clear()

    for line in text.splitlines():
        match = re.fullmatch(r"\t(\w+) (\w+ = C\.\w+)", line)
        if match:
            run.append(match.groups())
        else:
            if not line.startswith("\t//"):
                flush()
            elif run:
                flush()
            lines.append(line)
    return "\n".join(lines) + "\n"


# ---- C# --------------------------------------------------------------------------------------------------------

CSHARP_TYPES = {
    "size_t": "UIntPtr", "float": "float", "double": "double", "int32_t": "int", "uint32_t": "uint", "int64_t": "long",
    "uint64_t": "ulong", "uint8_t": "byte", "nl_status": "int",
}  # fmt: skip
KEYWORDS = {"fixed", "base", "params", "ref", "out", "in", "fork", "event", "object", "string"}


def csharp_parameter(parameter, header):
    base = re.match(r"(?:const )?(\w+)", parameter.type).group(1)
    name = "@" + parameter.name if parameter.name in KEYWORDS else parameter.name
    if base in {callback.name for callback in header.callbacks}:
        return f"{callback_name(base)} {name}"
    pointers = parameter.type.count("*") - (1 if parameter.mark else 0)
    value = CSHARP_TYPES.get(base, "byte") if pointers == 0 and base not in header.handles else "IntPtr"
    if parameter.mark == "NL_OUT":
        return f"out {value} {name}"
    if parameter.mark == "NL_ARRAY":
        direction = "[In] " if parameter.type.startswith("const ") or value == "IntPtr" else "[In, Out] "
        return f"{direction}{value}[] {name}"
    return f"{value} {name}"


def callback_name(name):
    return "Native" + camel(name[len("nl_") :])


def csharp_native(header):
    out = f"// {NOTE}\n#pragma warning disable SYSLIB1054\nusing System;\nusing System.Runtime.InteropServices;\n\n"
    out += "namespace Nanolith\n{\n"
    for callback in header.callbacks:
        arguments = ", ".join(
            f"{'IntPtr' if '*' in p.type else CSHARP_TYPES[p.type]} {p.name}" for p in callback.parameters
        )
        out += "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]\n"
        returns = CSHARP_TYPES.get(callback.returns, callback.returns)
        out += f"    internal delegate {returns} {callback_name(callback.name)}({arguments});\n\n"
    out += "    /// <summary>The functions of nanolith.h.</summary>\n    internal static class Native\n    {\n"
    out += "        private const string Library = \"libnanolith.so.0\";\n"
    for function in header.functions:
        returns = {"void": "void", "const char*": "IntPtr"}.get(function.returns) or CSHARP_TYPES[function.returns]
        arguments = ", ".join(csharp_parameter(p, header) for p in function.parameters)
        out += "\n        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]\n"
        out += f"        internal static extern {returns} {function.name}({arguments});\n"
    return out + "    }\n}\n"


def csharp_doc(lines, indent):
    text = " ".join(lines).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"{indent}/// <summary>{text}</summary>\n"


def csharp_enums(header):
    out = f"// {NOTE}\nusing System;\n\nnamespace Nanolith\n{{\n"
    blocks = []
    for enum in header.enums:
        block = csharp_doc([*enum.doc, NEWER], "    ")
        block += "    [Flags]\n" if enum.flags else ""
        block += f"    public enum {enum.name}{' : uint' if enum.flags else ''}\n    {{\n"
        block += "        /// <summary>Nothing.</summary>\n        None = 0,\n" if enum.flags else ""
        for constant in enum.constants:
            block += csharp_doc(constant.doc or [constant.name], "        ")
            block += f"        {camel(enum.short(constant))} = {constant.value},\n"
        blocks.append(block + "    }\n")
    return out + "\n".join(blocks) + "}\n"


def csharp_options(header):
    """NativeOptions.Set(IntPtr, int, long), (…, double) and (…, string) are written by hand, and so is the other part
    of each class."""
    out = f"// {NOTE}\nusing System;\nusing System.Collections.Generic;\n\nnamespace Nanolith\n{{\n"
    blocks = []
    for enum in header.enums:
        if not enum.options():
            continue
        block = csharp_doc([*enum.doc, "What is null keeps the library's default."], "    ")
        block += f"    public sealed partial class {enum.name}s\n    {{\n"
        sets = ""
        for constant in enum.constants:
            takes, choice = taken(constant)
            name = camel(enum.short(constant))
            block += csharp_doc(constant.doc, "        ")
            if takes.endswith("_LIST"):
                element = "long" if takes == "NL_TAKES_INT_LIST" else "string"
                block += f"        public IList<{element}> {name}s {{ get; }} = new List<{element}>();\n\n"
                sets += f"            foreach ({element} element in {name}s) NativeOptions.Set(raw, {constant.value}, element);\n"
                continue
            property_type, value = {
                "NL_TAKES_INT": ("long?", f"{name}.Value"), "NL_TAKES_FLOAT": ("double?", f"{name}.Value"), "NL_TAKES_TEXT": ("string", name),
                "NL_TAKES_BOOL": ("bool?", f"{name}.Value ? 1L : 0L"), "NL_TAKES_CHOICE": (f"{choice}?", f"(long){name}.Value"),
            }[takes]  # fmt: skip
            block += f"        public {property_type} {name} {{ get; set; }}\n\n"
            sets += f"            if ({name} != null) NativeOptions.Set(raw, {constant.value}, {value});\n"
        block += f"        private void SetValues(IntPtr raw)\n        {{\n{sets}        }}\n    }}\n"
        blocks.append(block)
    return out + "\n".join(blocks) + "}\n"


# ---- Python ----------------------------------------------------------------------------------------------------

PYTHON_TYPES = {
    "size_t": "c_size_t", "float": "c_float", "double": "c_double", "int32_t": "c_int32", "uint32_t": "c_uint32",
    "int64_t": "c_int64", "uint64_t": "c_uint64", "uint8_t": "c_uint8", "nl_status": "c_int32", "void": "None",
    "const char*": "c_char_p",
}  # fmt: skip
PYTHON_NOTE = f"# {NOTE}\n"


def python_type(parameter, header):
    """ctypes checks what goes through a POINTER(...); c_char_p takes bytes and buffers of bytes."""
    base = re.match(r"(?:const )?(\w+)", parameter.type).group(1)
    if base in {callback.name for callback in header.callbacks}:
        return base
    pointers = parameter.type.count("*") - (1 if parameter.mark else 0)
    value = PYTHON_TYPES.get(base, "c_void_p") if pointers == 0 else "c_char_p" if base == "char" else "c_void_p"
    if parameter.mark == "NL_ARRAY" and base == "char" and pointers == 0:
        return "c_char_p"
    return f"POINTER({value})" if parameter.mark else value


def python_native(header):
    out = PYTHON_NOTE + '"""The functions of nanolith.h, as ctypes calls them."""\n\nfrom ctypes import (\n    CFUNCTYPE,\n'
    calls = ""
    for callback in header.callbacks:
        arguments = ", ".join("c_void_p" if "*" in p.type else PYTHON_TYPES[p.type] for p in callback.parameters)
        calls += comment(callback.doc, "#") + f"{callback.name} = CFUNCTYPE({PYTHON_TYPES[callback.returns]}, {arguments})\n"
    for function in header.functions:
        arguments = [PYTHON_TYPES[function.returns], *(python_type(p, header) for p in function.parameters)]
        calls += "\n" + comment(function.doc, "#")
        line = f'{function.name} = function("{function.symbol or function.name}", {", ".join(arguments)})\n'
        if len(line) > 121:
            lines = "".join(f"    {argument},\n" for argument in [f'"{function.symbol or function.name}"', *arguments])
            line = f"{function.name} = function(\n{lines})\n"
        calls += line
    used = set(re.findall(r"\b(?:c_\w+|POINTER)\b", re.sub(r"#.*", "", calls)))
    out += "".join(f"    {name},\n" for name in sorted(used))
    return out + ")\n\nfrom ._library import function\n\n" + calls


def python_doc(lines, indent):
    text = "\n".join(f"{indent}{line}".rstrip() for line in lines).strip().replace("\\", "\\\\")
    end = f"\n{indent}" if len(lines) > 1 or text.endswith('"') else ""
    return f'{indent}"""{text}{end}"""\n'


def python_enums(header):
    out = PYTHON_NOTE + '"""The constants of nanolith.h. A newer library may know more values."""\n\n'
    out += "from ._open_enum import OpenEnum, OpenFlag\n\n__all__ = [\n"
    out += "".join(f'    "{enum.name}",\n' for enum in header.enums) + "]\n"
    for enum in header.enums:
        out += f"\n\nclass {enum.name}({'OpenFlag' if enum.flags else 'OpenEnum'}):\n" + python_doc(enum.doc, "    ") + "\n"
        for constant in enum.constants:
            out += comment(constant.doc, "#:", "    ") + f"    {enum.short(constant)} = {constant.value}\n"
    return out


def python_options(header):
    """The functions of Engine (log, progress) and of Cache.generate (logits) are written by hand."""
    out = PYTHON_NOTE + '"""Options as keyword arguments; None, and an option that is left out, keep the library\'s default."""\n\n'
    out += "from __future__ import annotations\n\nfrom typing import Sequence, TypedDict\n\n"
    options = [enum for enum in header.enums if enum.options()]
    choices = {taken(constant)[1] for enum in options for constant in enum.constants} - {None}
    out += f"from .enums import {', '.join(sorted(choices))}\n"
    tables = ""
    for enum in options:
        out += f"\n\nclass {enum.name}s(TypedDict, total=False):\n" + python_doc(enum.doc, "    ") + "\n"
        tables += f"\n#: The key of each of {enum.name}s, and what it takes.\n{enum.name[:-6].upper()}_KEYS = {{\n"
        for constant in enum.constants:
            takes, choice = taken(constant)
            name = enum.short(constant).lower() + ("s" if takes.endswith("_LIST") else "")
            kind = {
                "NL_TAKES_INT": "int", "NL_TAKES_BOOL": "bool", "NL_TAKES_CHOICE": choice, "NL_TAKES_FLOAT": "float",
                "NL_TAKES_TEXT": "str | bytes", "NL_TAKES_INT_LIST": "Sequence[int]",
                "NL_TAKES_TEXT_LIST": "Sequence[str | bytes]",
            }[takes]  # fmt: skip
            out += comment(constant.doc, "#:", "    ") + f"    {name}: {kind} | None\n"
            stored = takes[len("NL_TAKES_") :].lower().replace("choice", "int").replace("bool", "int")
            tables += f'    "{name}": ({constant.value}, "{stored}"),\n'
        tables += "}\n"
    return out + "\n" + tables


# ---- Files -----------------------------------------------------------------------------------------------------

FILES = {
    "bindings/rust/nanolith-sys/src/declarations.rs": rust_sys,
    "bindings/rust/nanolith/src/enums.rs": rust_enums,
    "bindings/rust/nanolith/src/setters.rs": rust_setters,
    "bindings/go/enums.go": go_enums,
    "bindings/go/option_fields.go": go_options,
    "bindings/csharp/Nanolith/Native.g.cs": csharp_native,
    "bindings/csharp/Nanolith/Enums.g.cs": csharp_enums,
    "bindings/csharp/Nanolith/Options.g.cs": csharp_options,
    "bindings/python/nanolith/_native.py": python_native,
    "bindings/python/nanolith/enums.py": python_enums,
    "bindings/python/nanolith/options.py": python_options,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a file is not up to date")
    check = parser.parse_args().check
    header = Header(HEADER.read_text())
    stale = []
    for name, make in FILES.items():
        path, text = ROOT / name, make(header)
        if path.exists() and path.read_text() == text:
            continue
        stale.append(name)
        if not check:
            path.write_text(text)
    for name in stale:
        print(f"{name} {'is not what the header asks for: run bindings/generate.py' if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
