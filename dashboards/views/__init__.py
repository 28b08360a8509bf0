"""The pages' layout: what Streamlit shows where. What is shown is made by the pure modules beside this package."""
