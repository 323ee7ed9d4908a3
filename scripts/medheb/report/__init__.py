"""The report: tables, figures, example retrievals, and one page that holds them all."""
