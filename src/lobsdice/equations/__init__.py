"""The equations of the paper and of related methods, as functions of values."""
