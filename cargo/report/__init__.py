"""Loss reports: the draft, the form, its text and PDF, and the notice to each owner."""
