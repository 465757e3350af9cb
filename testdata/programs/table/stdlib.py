# No torch at all.
# needs: plain
# exit: 0
# says: no import of torch was seen
print('done')
