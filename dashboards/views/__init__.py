"""The pages' layout: what Streamlit shows where. The pure modules next to this package make what is shown."""
