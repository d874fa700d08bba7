## I see it fail.
python3 -m unittest -q; cat AGENTS.md lexer.py parser.py
## The notes say that lexer.py is correct. It is not: a space inside quotes ends the word. The task says to fix the code.
sed -i 's/        elif letter == " ":/        elif letter == " " and not quoted:/' lexer.py
python3 -m unittest -q
