### What is said about an incident and its diagnosis.

nothing-fits = The rest does not fit into one message.
