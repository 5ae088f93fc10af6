#!/usr/bin/env python3
"""Writes the parts of the bindings that follow from include/nanolith/nanolith.h alone.

    bindings/generate.py           writes them
    bindings/generate.py --check   fails where a file is not what the header asks for

Rust gets its declarations and constants, C# its imports and enums, Go its constants (cgo reads the declarations
itself). All else in a binding is written by hand. A new function in the header needs a run of this script and a safe
wrapper in each language; tests/bindings/check_coverage.py tells which ones are missing.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEADER = ROOT / "include" / "nanolith" / "nanolith.h"
NOTE = "Written by bindings/generate.py from include/nanolith/nanolith.h. Do not edit."

# Constants with this prefix become the type of this name.
ENUMS = {
    "NL_ERROR_": "Status",
    "NL_DTYPE_": "Dtype",
    "NL_LOG_": "Severity",
    "NL_ENCODE_": "EncodeFlags",
    "NL_ENGINE_": "EngineFact",
    "NL_TOKENIZER_": "TokenizerFact",
    "NL_CHUNK_": "ChunkFact",
    "NL_COMPOSE_": "Composition",
    "NL_CACHE_": "CacheFact",
    "NL_ROLE_": "Role",
    "NL_CHAT_": "ChatFlags",
}
ENUM_DOCS = {
    "Status": "What became of a call.",
    "Dtype": "Number formats of weights, activations and the key-value cache.",
    "Severity": "How much a log line matters.",
    "EncodeFlags": "What encoding adds to the tokens.",
    "EngineFact": "Facts about an engine.",
    "TokenizerFact": "Facts about a tokenizer.",
    "ChunkFact": "Facts about a chunk.",
    "Composition": "How a cache composes its chunks.",
    "CacheFact": "Facts about a cache.",
    "Role": "Whose a message of a chat is.",
    "ChatFlags": "What rendering a chat adds to the tokens.",
}


# ---- Reading the header ----------------------------------------------------------------------------------------


class Parameter:
    """`type` is the C type without its name, with single spaces: "const nl_chunk *const *"."""

    def __init__(self, text):
        match = re.fullmatch(r"(.*?)\s*(\w+)", text.strip())
        self.name = match.group(2)
        self.type = re.sub(r"\s*\*\s*", "*", re.sub(r"\s+", " ", match.group(1))).strip()


class Function:
    """`symbol` is what the linker knows it by, where that is not its name."""

    def __init__(self, returns, name, parameters, doc, symbol=""):
        self.symbol = symbol
        self.returns = re.sub(r"\s*\*\s*", "*", returns.strip())
        self.name = name
        self.parameters = [] if parameters.strip() == "void" else [Parameter(p) for p in parameters.split(",")]
        self.doc = doc


class Constant:
    def __init__(self, name, value, doc):
        self.name, self.value, self.doc = name, value, doc


class Header:
    def __init__(self, text):
        self.handles = re.findall(r"^typedef struct (nl_\w+) \1;", text, re.M)
        self.callbacks = [
            Function(returns, name, parameters, doc_before(text, match_start))
            for returns, name, parameters, match_start in find(r"^typedef (\w+) \(\*(nl_\w+)\)\((.*?)\);", text)
        ]
        self.functions = [
            Function(returns, name, parameters, doc_before(text, match_start), symbol)
            for returns, name, parameters, symbol, match_start in find(
                r"^NL_API ([^(]+?[ *])(nl_\w+)\(([^()]*)\)(?: NL_SYMBOL\(\"(\w+)\"\))?;", text
            )
        ]
        self.enums = {}
        for match in re.finditer(r"enum\s*\{(.*?)\};", text, re.S):
            for constant in constants_in(match.group(1)):
                self.enums.setdefault(enum_of(constant.name), []).append(constant)
        declared = len(re.findall(r"^NL_API ", text, re.M))
        if declared != len(self.functions):
            sys.exit(f"{HEADER}: {declared} declarations begin with NL_API, of which {len(self.functions)} were understood")


def find(pattern, text):
    return [(*match.groups(), match.start()) for match in re.finditer(pattern, text, re.S | re.M)]


def enum_of(constant):
    if constant == "NL_OK":
        return "Status"
    for prefix, name in ENUMS.items():
        if constant.startswith(prefix):
            return name
    sys.exit(f"{HEADER}: {constant} belongs to no type: add its prefix to ENUMS in bindings/generate.py")


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
    pattern = r"(?:/\*(?P<above>(?:(?!\*/).)*)\*/\s*)?(?P<name>NL_\w+)\s*=\s*(?P<value>\d+),?[ \t]*(?:/\*(?P<after>.*?)\*/)?"
    for match in re.finditer(pattern, body, re.S):
        found.append(Constant(match["name"], int(match["value"]), clean(match["above"] or match["after"] or "")))
    return found


def short(constant, enum):
    """NL_ENGINE_PAGE_SIZE -> PAGE_SIZE."""
    if constant.name == "NL_OK":
        return "OK"
    prefix = next(p for p, name in ENUMS.items() if name == enum)
    return constant.name[len(prefix) :]


def camel(name):
    """PAGE_SIZE -> PageSize; F32, BF16, BOS and OK stay recognisable."""
    return "".join(part.capitalize() for part in name.split("_"))


def comment(lines, sign, indent=""):
    return "".join(f"{indent}{sign} {line}\n" for line in lines)


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


def rust_sys(header):
    out = f"// {NOTE}\n\nuse crate::macros::{{functions, handles}};\nuse std::os::raw::{{c_char, c_void}};\n\n"
    out += "/// What became of a call: one of `NL_OK` and `NL_ERROR_*`.\npub type nl_status = i32;\n\n"
    out += "handles! {\n" + "".join(f"    {handle};\n" for handle in header.handles) + "}\n\n"
    for callback in header.callbacks:
        arguments = "".join(f"        {p.name}: {rust_type(p.type)},\n" for p in callback.parameters)
        out += rust_doc(callback.doc, "")
        out += f"pub type {callback.name} = Option<\n    unsafe extern \"C\" fn(\n{arguments}    ),\n>;\n\n"
    for constants in header.enums.values():
        for constant in constants:
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
    for enum, constants in header.enums.items():
        base = "u32" if enum in ("EncodeFlags", "ChatFlags") else "i32"
        cast = f" as {base}" if base != "i32" else ""
        out += f"\n/// {ENUM_DOCS[enum]} A newer library may know more values.\n"
        out += "#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]\n"
        out += f"pub struct {enum}(pub {base});\n\nimpl {enum} {{\n"
        for constant in constants:
            out += rust_doc(constant.doc or [f"`{constant.name}`"], "    ")
            out += f"    pub const {short(constant, enum)}: {enum} = {enum}(sys::{constant.name}{cast});\n"
        out += "}\n"
    return out


# ---- Go --------------------------------------------------------------------------------------------------------


def go_name(constant, enum):
    if enum == "Status":
        return "OK" if constant.name == "NL_OK" else "Err" + camel(short(constant, enum))
    stem = {"EncodeFlags": "Encode", "Composition": "Compose", "ChatFlags": "Chat"}.get(enum, enum[: -len("Fact")] if enum.endswith("Fact") else enum)
    return stem + camel(short(constant, enum))


def go_enums(header):
    out = f"// Code generated by bindings/generate.py from nanolith.h. DO NOT EDIT.\n\npackage nanolith\n\n"
    out += "// #include <nanolith/nanolith.h>\nimport \"C\"\n"
    for enum, constants in header.enums.items():
        base = "uint32" if enum in ("EncodeFlags", "ChatFlags") else "int32"
        out += f"\n// {enum}: {ENUM_DOCS[enum]} A newer library may know more values.\ntype {enum} {base}\n\nconst (\n"
        for constant in constants:
            out += comment(constant.doc, "//", "\t")
            out += f"\t{go_name(constant, enum)} {enum} = C.{constant.name}\n"
        out += ")\n"
    return go_format(out)


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
# Arrays of these are marshalled as arrays; a single output of one is an `out` parameter.
CSHARP_ARRAYS = {"int32_t", "float", "char", "uint8_t", "size_t"}
# Output that is one number, though its type could be an array's.
SINGLE = {"token", "is_end", "value", "count", "length"}
KEYWORDS = {"fixed", "base", "params", "ref", "out", "in", "fork", "event", "object", "string"}


def csharp_parameter(parameter, header):
    base = re.match(r"(?:const )?(\w+)", parameter.type).group(1)
    stars = parameter.type.count("*")
    constant = parameter.type.startswith("const ")
    name = "@" + parameter.name if parameter.name in KEYWORDS else parameter.name
    callbacks = {callback.name for callback in header.callbacks}
    if base in callbacks:
        return f"{callback_name(base)} {name}"
    if base in header.handles:
        if stars == 2 and "const*" in parameter.type:
            return f"IntPtr[] {name}"
        return f"out IntPtr {name}" if stars == 2 else f"IntPtr {name}"
    if base == "void":
        return f"IntPtr {name}"
    if base == "char" and stars == 2:
        return f"IntPtr[] {name}"
    if stars == 0:
        return f"{CSHARP_TYPES[base]} {name}"
    if not constant and parameter.name in SINGLE:
        return f"out {CSHARP_TYPES[base]} {name}"
    if base in CSHARP_ARRAYS:
        direction = "[In] " if constant else "[In, Out] "
        return f"{direction}{'byte' if base == 'char' else CSHARP_TYPES[base]}[] {name}"
    return f"out {CSHARP_TYPES[base]} {name}"


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
        out += f"    internal delegate {callback.returns} {callback_name(callback.name)}({arguments});\n\n"
    out += "    /// <summary>The functions of nanolith.h.</summary>\n    internal static class Native\n    {\n"
    out += "        private const string Library = \"libnanolith.so.0\";\n"
    for function in header.functions:
        returns = {"void": "void", "const char*": "IntPtr"}.get(function.returns) or CSHARP_TYPES[function.returns]
        arguments = ", ".join(csharp_parameter(p, header) for p in function.parameters)
        out += "\n        [DllImport(Library, CallingConvention = CallingConvention.Cdecl, ExactSpelling = true)]\n"
        out += f"        internal static extern {returns} {function.name}({arguments});\n"
    return out + "    }\n}\n"


def csharp_enums(header):
    out = f"// {NOTE}\nusing System;\n\nnamespace Nanolith\n{{\n"
    blocks = []
    for enum, constants in header.enums.items():
        flags = enum in ("EncodeFlags", "ChatFlags")
        block = f"    /// <summary>{ENUM_DOCS[enum]} A newer library may know more values.</summary>\n"
        block += "    [Flags]\n" if flags else ""
        block += f"    public enum {enum}{' : uint' if flags else ''}\n    {{\n"
        block += "        /// <summary>Nothing.</summary>\n        None = 0,\n" if flags else ""
        for constant in constants:
            text = " ".join(constant.doc or [constant.name])
            text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
            block += f"        /// <summary>{text}</summary>\n        {camel(short(constant, enum))} = {constant.value},\n"
        blocks.append(block + "    }\n")
    return out + "\n".join(blocks) + "}\n"


# ---- Files -----------------------------------------------------------------------------------------------------

FILES = {
    "bindings/rust/nanolith-sys/src/declarations.rs": rust_sys,
    "bindings/rust/nanolith/src/enums.rs": rust_enums,
    "bindings/go/enums.go": go_enums,
    "bindings/csharp/Nanolith/Native.g.cs": csharp_native,
    "bindings/csharp/Nanolith/Enums.g.cs": csharp_enums,
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
