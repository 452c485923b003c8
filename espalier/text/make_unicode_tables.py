"""Writes unicode_tables.cc: the code points that tiktoken takes for \\p{L}, \\p{N} and \\s.

Needs the package tiktoken. Run: python make_unicode_tables.py > unicode_tables.cc
"""

import tiktoken


def ranges(pattern):
    """Sorted [first, last] pairs of the code points that match."""
    single_bytes = {bytes([i]): i for i in range(256)}
    encoding = tiktoken.Encoding(
        "one", pat_str=pattern, mergeable_ranks=single_bytes, special_tokens={}
    )
    found = []
    for code_point in range(0x110000):
        if 0xD800 <= code_point < 0xE000 or not encoding.encode_ordinary(chr(code_point)):
            continue
        if found and found[-1][1] == code_point - 1:
            found[-1][1] = code_point
        else:
            found.append([code_point, code_point])
    return found


def main():
    print("// Written by make_unicode_tables.py; do not edit.")
    print('#include "espalier/text/unicode_tables.h"\n')
    print("namespace espalier {\nnamespace {\n\n// clang-format off")
    names = {"letters": r"\p{L}", "numbers": r"\p{N}", "white_space": r"\s"}
    constants = {name: "k" + name.title().replace("_", "") for name in names}
    for name, pattern in names.items():
        print(f"constexpr CodePointRange {constants[name]}[] = {{")
        line = ""
        for first, last in ranges(pattern):
            item = f"{{{first:#x},{last:#x}}},"
            if len(line) + len(item) > 98:
                print(f"  {line}")
                line = ""
            line += item
        print(f"  {line}\n}};")
    print("// clang-format on\n\n}  // namespace\n")
    for name in names:
        print(f"std::span<const CodePointRange> unicode_{name}() {{ return {constants[name]}; }}")
    print("\n}  // namespace espalier")


if __name__ == "__main__":
    main()
