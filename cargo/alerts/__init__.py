"""Alerts: the record of each change, the fold to what stands now, and who may write them."""
