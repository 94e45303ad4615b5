# SPDX-License-Identifier: Apache-2.0
"""A GGUF file in BF16 out of a quantised one: every matrix's exact values rounded to bf16 (to
nearest, ties to even), every vector and all metadata as they are. Needs the Python package gguf.

    python3 tests/bench/peer_bf16.py IN.gguf OUT.gguf
"""
import sys

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, GGMLQuantizationType
from gguf.quants import dequantize

BF16 = 32  # general.file_type of files whose matrices are mostly bf16


def metadata(reader, writer):
    for field in reader.fields.values():
        kind = field.types[0]
        if field.name.startswith("GGUF.") or field.name == "general.architecture":
            continue  # the writer has written these
        if field.name == "general.file_type":
            writer.add_file_type(BF16)
        elif kind == GGUFValueType.ARRAY:
            writer.add_key_value(field.name, field.contents(), kind, field.types[-1])
        else:
            writer.add_key_value(field.name, field.contents(), kind)


def rounded(wide):
    bits = np.ascontiguousarray(wide, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def main(source, target):
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    metadata(reader, writer)
    for tensor in reader.tensors:
        if len(tensor.shape) < 2:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
            continue
        half = rounded(dequantize(tensor.data, tensor.tensor_type))
        writer.add_tensor(tensor.name, half, raw_dtype=GGMLQuantizationType.BF16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
