"""When to learn: what one effectively independent draw costs, by method and by side.

autocorrelation  integrated times of chains, R-hat, and when an estimate is refused
plan             families of targets, methods, tasks and budgets, as frozen values
targets          the families: what is observed of them, and their exact answers
chains           chains recorded within a budget, and the price of one step
ways             how the methods are run, a class for every kind of them
others           the chains of other libraries, where these are installed
programme        the full programme and the quick one
cells            what is kept of one run
fits             how costs grow with the side, and where two lines cross
table            rows, as markdown and for the terminal
figures          cost against side, and cost against the number of draws
page             the folder, with a page that says what it holds
guard            a few cells again, and their ratios beside those that were kept
"""
