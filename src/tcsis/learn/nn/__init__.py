"""Networks in plain torch: trunks of one contract, (z, alpha) -> features, and heads on them."""
