#!/bin/sh
# usage: collect.sh FROM TO
for file in $(find $1 -name '*.txt'); do
  cp $file $2
done
