#!/usr/bin/env python3
"""Tests of check_proto.py: what it lists, and which changes it calls breaking."""

import os
import tempfile
import unittest

from check_proto import compare, read_protos

PROTO = """syntax = "proto3";
package holdfast.v1;
enum Kind { KIND_UNSPECIFIED = 0; KIND_A = 1; }
message Ask {
  message Part { bytes data = 2; }
  string name = 1;
  repeated Part parts = 12;
  oneof how { Kind kind = 3; }
}
service Locks { rpc Watch(Ask) returns (stream Ask); }
"""


def listing(text):
    with tempfile.TemporaryDirectory() as root:
        folder = os.path.join(root, "proto/holdfast/v1")
        os.makedirs(folder)
        with open(os.path.join(folder, "locks.proto"), "w", encoding="utf-8") as file:
            file.write(text)
        return read_protos(root)


class CheckProto(unittest.TestCase):
    def changed(self, old, new):
        self.assertIn(old, PROTO)
        return compare(listing(PROTO)[0], *listing(PROTO.replace(old, new)))

    def test_listing(self):
        self.assertEqual(listing(PROTO)[0], [
            "enum holdfast.v1.Kind 0 KIND_UNSPECIFIED",
            "enum holdfast.v1.Kind 1 KIND_A",
            "field holdfast.v1.Ask 1 name string",
            "field holdfast.v1.Ask 3 kind holdfast.v1.Kind",
            "field holdfast.v1.Ask 12 parts repeated holdfast.v1.Ask.Part",
            "field holdfast.v1.Ask.Part 2 data bytes",
            "method holdfast.v1.Locks Watch holdfast.v1.Ask -> stream holdfast.v1.Ask",
        ])

    def test_new_field_is_no_break(self):
        self.assertEqual(self.changed("string name = 1;", "string name = 1; bool b = 4;"),
                         ([], ["field holdfast.v1.Ask 4 b bool"]))

    def test_changed_number_type_or_name_breaks(self):
        for new in ["string name = 5;", "bytes name = 1;", "string title = 1;"]:
            broken, _ = self.changed("string name = 1;", new)
            self.assertEqual(broken, ["field holdfast.v1.Ask 1 name string"])

    def test_removed_field_must_be_reserved(self):
        broken, _ = self.changed("string name = 1;", "")
        self.assertEqual(broken, ["field holdfast.v1.Ask 1 name string"])
        self.assertEqual(self.changed("string name = 1;", "reserved 1;"), ([], []))

    def test_streaming_is_part_of_a_method(self):
        broken, _ = self.changed("(stream Ask)", "(Ask)")
        self.assertEqual(len(broken), 1)


if __name__ == "__main__":
    unittest.main()
