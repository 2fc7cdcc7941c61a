#!/bin/sh
# Generates the Python stubs. Usage: generate.sh [PROTO_FOLDER [OUT_FOLDER]]
# Debian 12: apt install protobuf-compiler protobuf-compiler-grpc python3-grpcio python3-protobuf
set -eu
here=$(cd "$(dirname "$0")" && pwd)
proto=${1:-/usr/share/holdfast/proto}
out=${2:-${here}/generated}
mkdir -p "${out}"
protoc --proto_path="${proto}" --python_out="${out}" --grpc_out="${out}" \
  --plugin=protoc-gen-grpc="$(command -v grpc_python_plugin)" \
  "${proto}"/holdfast/v1/types.proto "${proto}"/holdfast/v1/locks.proto
