"""Nothing to recommend: a program that is not PyTorch, with a variable that it does not read."""

total = 0
for i in range(2000000):
    total += i * i % 7
