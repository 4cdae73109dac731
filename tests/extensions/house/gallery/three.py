"""
Three
=====
"""

# %% draw
#
# .. _one-line-is-drawn:
#
# One line is drawn.

import matplotlib.pyplot as plt

figure, axes = plt.subplots()
lines = axes.plot([1, 2, 3])
axes.set_title("Three points")
