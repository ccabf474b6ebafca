"""From prompts to micro-batches: sampling, scoring, the table of all rows, selection, and the buffer of updates.

``schedule`` says which work item does what, ``play`` samples the rows of some groups, ``table`` gathers their scalars over
ranks, ``collector`` runs a whole rollout, ``buffer`` deals its rows into updates and micro-batches, ``warmup`` does the same
for supervised updates, ``scoring`` is passes without gradient, ``world`` is what ranks share.
"""
