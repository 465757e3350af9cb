# Only NumPy.
# needs: numpy
# exit: 0
# says: no import of torch was seen
import numpy

print(numpy.ones(3).sum(), 'done')
