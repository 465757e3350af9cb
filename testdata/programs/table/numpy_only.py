# Only NumPy.
# needs: numpy
# exit: 0
# says: never imported torch
import numpy

print(numpy.ones(3).sum(), 'done')
