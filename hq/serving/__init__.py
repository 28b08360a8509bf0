"""The serving store: what headquarters' streams say, as rows that answer questions quickly. It can be dropped at any time."""
