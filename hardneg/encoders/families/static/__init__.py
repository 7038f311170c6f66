"""Static encoders: a table with one vector a token, and the mean of a text's."""
