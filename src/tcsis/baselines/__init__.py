"""Methods of other people, written anew from their papers, to be measured against."""
