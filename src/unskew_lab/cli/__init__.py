"""Commands of the laboratory, one module each; `unskew.cli` finds them."""
