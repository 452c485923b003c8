// Rows of a table by index, as an embedding needs.
#pragma once

#include "espalier/ops/rules.h"

namespace espalier {

// (table (V, ...), ids (...) integer): table[ids], shape ids.dims + table.dims[1:]. An id outside
// the table is moved to its nearest end (as StableHLO clamps).
struct Take {
  ESPALIER_OP_RULES(Take, "take");
};

// (table (V, ...), ids (...), rows ids.dims + table.dims[1:]): the table with each row added at its
// id. A row whose id is outside the table is dropped.
struct AddRows {
  ESPALIER_OP_RULES(AddRows, "add_rows");
};

Tensor take(const Tensor& table, const Tensor& ids);
Tensor add_rows(const Tensor& table, const Tensor& ids, const Tensor& rows);

}  // namespace espalier
