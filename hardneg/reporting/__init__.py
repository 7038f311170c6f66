"""What a person reads: tables, figures, and the report that holds them."""
