## Where does it stand?
git status; cat version.txt
## I resolve it and go on.
echo 2.1-feature > version.txt && git add version.txt && GIT_EDITOR=true git rebase --continue && git log --oneline --all --graph
