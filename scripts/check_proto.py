#!/usr/bin/env python3
"""Guards the wire: compares the .proto files with the listing proto/holdfast.v1.lock.

Usage: check_proto.py [--update] [ROOT]

The listing has one line for each field, enum value and method. A line may be added (and
`--update` writes it down); a line that changes or goes away breaks clients that are already out
there, unless the number of a removed field is `reserved`. Breaking on purpose means `--update` in
a commit that says why.
"""

import os
import subprocess
import sys

LOCK = os.path.join("proto", "holdfast.v1.lock")


def parse_text_format(text):
    """Text-format protobuf as a list of (name, value); a nested message is again such a list."""
    stack = [[]]
    for line in text.splitlines():
        line = line.strip()
        if line.endswith("{"):
            stack.append([])
            stack[-2].append((line[:-1].strip(), stack[-1]))
        elif line == "}":
            stack.pop()
        elif line:
            name, value = line.split(": ", 1)
            stack[-1].append((name, value.strip('"')))
    return stack[0]


def all_of(message, name):
    return [value for key, value in message if key == name]


def one_of(message, name, default=""):
    return (all_of(message, name) or [default])[0]


def type_of(field):
    kind = one_of(field, "type_name").lstrip(".") or one_of(field, "type")[len("TYPE_"):].lower()
    repeated = "repeated " if one_of(field, "label") == "LABEL_REPEATED" else ""
    return repeated + kind


def list_message(prefix, message, lines, reserved):
    name = f"{prefix}.{one_of(message, 'name')}"
    for field in all_of(message, "field"):
        lines.append(f"field {name} {one_of(field, 'number')} {one_of(field, 'name')} "
                     f"{type_of(field)}")
    for span in all_of(message, "reserved_range"):
        reserved.update(f"field {name} {number} " for number in
                        range(int(one_of(span, "start")), int(one_of(span, "end"))))
    for nested in all_of(message, "nested_type"):
        list_message(name, nested, lines, reserved)
    for enum in all_of(message, "enum_type"):
        list_enum(name, enum, lines)


def list_enum(prefix, enum, lines):
    for value in all_of(enum, "value"):
        lines.append(f"enum {prefix}.{one_of(enum, 'name')} {one_of(value, 'number')} "
                     f"{one_of(value, 'name')}")


def list_service(prefix, service, lines):
    for method in all_of(service, "method"):
        ends = []
        for side in ("client", "server"):
            stream = "stream " if one_of(method, f"{side}_streaming") == "true" else ""
            kind = one_of(method, "input_type" if side == "client" else "output_type")
            ends.append(stream + kind.lstrip("."))
        lines.append(f"method {prefix}.{one_of(service, 'name')} {one_of(method, 'name')} "
                     f"{ends[0]} -> {ends[1]}")


def list_files(descriptor_set):
    lines, reserved = [], set()
    for file in all_of(descriptor_set, "file"):
        package = one_of(file, "package")
        for message in all_of(file, "message_type"):
            list_message(package, message, lines, reserved)
        for enum in all_of(file, "enum_type"):
            list_enum(package, enum, lines)
        for service in all_of(file, "service"):
            list_service(package, service, lines)
    return sorted(lines, key=lambda line: [int(word) if word.isdigit() else 0 if i == 2 else word
                                           for i, word in enumerate(line.split())]), reserved


def read_protos(root):
    protos = sorted(os.path.relpath(os.path.join(folder, name), os.path.join(root, "proto"))
                    for folder, _, names in os.walk(os.path.join(root, "proto"))
                    for name in names if name.endswith(".proto"))
    if not protos:
        return [], set()
    compiled = subprocess.run(
        ["protoc", "--proto_path=proto", "--descriptor_set_out=/dev/stdout", *protos],
        cwd=root, check=True, stdout=subprocess.PIPE).stdout
    decoded = subprocess.run(
        ["protoc", "--decode=google.protobuf.FileDescriptorSet",
         "google/protobuf/descriptor.proto"],
        input=compiled, check=True, stdout=subprocess.PIPE).stdout
    return list_files(parse_text_format(decoded.decode()))


def compare(locked, current, reserved):
    """Returns (lines that break clients, lines that are new)."""
    broken = [line for line in locked if line not in set(current)
              and not any(line.startswith(prefix) for prefix in reserved)]
    return broken, [line for line in current if line not in set(locked)]


def main():
    arguments = [a for a in sys.argv[1:] if a != "--update"]
    root = os.path.abspath(arguments[0] if arguments else ".")
    lock_path = os.path.join(root, LOCK)
    current, reserved = read_protos(root)
    locked = []
    if os.path.exists(lock_path):
        with open(lock_path, encoding="utf-8") as file:
            locked = [line for line in file.read().splitlines() if not line.startswith("#")]
    broken, new = compare(locked, current, reserved)
    for line in broken:
        print(f"{LOCK}: breaks clients: gone or changed: {line}")
    for line in new:
        print(f"{LOCK}: not listed yet: {line}")
    if "--update" in sys.argv:
        with open(lock_path, "w", encoding="utf-8") as file:
            file.write("# Written by scripts/check_proto.py --update; a line that changes breaks "
                       "clients.\n" + "".join(line + "\n" for line in current))
        print(f"{LOCK}: {len(current)} lines written")
        return 0
    if broken or new:
        print("run scripts/check_proto.py --update if this is meant")
        return 1
    print(f"proto: {len(current)} fields, values and methods as listed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
