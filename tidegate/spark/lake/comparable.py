"""Values of every type in a form that Spark compares: it has no order, and so no equality, of maps and variants.

Wherever rows are compared, they are compared in this form.
"""

from __future__ import annotations

from pyspark.sql import types


def sql(expression: str, kind: types.DataType, depth: int = 0) -> str:
    """SQL for a value in a form that compares; equal forms are equal values, and NULL stays NULL.

    A map is an array of its entries by their keys, a variant its JSON, whose fields are in the order of their names.

    Args:
        expression: SQL of the value.
        kind: Its type.
        depth: Of nested calls, which name their variables by it.
    """
    if not _has_no_order(kind):
        return expression
    each = f"_each_{depth}"
    match kind:
        case types.VariantType():
            return f"to_json({expression})"
        case types.MapType():
            entry = f"struct({sql(f'{each}.key', kind.keyType, depth + 1)}, {sql(f'{each}.value', kind.valueType, depth + 1)})"
            return f"array_sort(transform(map_entries({expression}), {each} -> {entry}))"
        case types.ArrayType():
            return f"transform({expression}, {each} -> {sql(each, kind.elementType, depth + 1)})"
        case types.StructType():
            fields = [sql(f"{expression}.`{field.name}`", field.dataType, depth) for field in kind.fields]
            return f"if({expression} IS NULL, NULL, struct({', '.join(fields)}))"
        case _:
            return expression


def _has_no_order(kind: types.DataType) -> bool:
    match kind:
        case types.MapType() | types.VariantType():
            return True
        case types.ArrayType():
            return _has_no_order(kind.elementType)
        case types.StructType():
            return any(_has_no_order(field.dataType) for field in kind.fields)
        case _:
            return False
